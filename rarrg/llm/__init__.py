"""One chat protocol with a JSON schema, several backends."""
