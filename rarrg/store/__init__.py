"""The phrase store: a FAISS index, its phrases and a manifest."""
