"""The data of charts, thinned to what can be seen."""
