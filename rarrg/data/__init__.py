"""Studies and pixels: readers, images, cached features, batches."""
