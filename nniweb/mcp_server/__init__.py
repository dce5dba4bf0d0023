"""An MCP server: tools by which agents run searches. Each tool asks the REST interface with the caller's own token."""
