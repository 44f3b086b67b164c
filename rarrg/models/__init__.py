"""Frozen encoders, the DETR decoder and the phrase retriever."""
