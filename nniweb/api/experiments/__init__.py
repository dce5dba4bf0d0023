"""REST: experiments, from launch to charts."""
