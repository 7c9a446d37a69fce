"""The registry over HTTP: its tools, toolkits, rules, pages, analytics and plugins, a file for each."""
