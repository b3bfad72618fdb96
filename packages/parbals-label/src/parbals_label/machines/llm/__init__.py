"""An LLM as annotator, through any endpoint that speaks OpenAI's chat protocol."""
