"""Parts of make_sample_models.py: training and measuring the bundled models."""
