"""The hierarchy's simulation on a GPU: the same noise words, controls and moments as the processor, agreement to rounding."""
