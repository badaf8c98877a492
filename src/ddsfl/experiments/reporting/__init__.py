"""The page of `ddsfl report`: from cells, models and images to what the page shows."""
