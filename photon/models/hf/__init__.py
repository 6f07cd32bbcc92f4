"""Models of the transformers library: its own modelling code, our attention. transformers is imported where one is
loaded, never before."""
