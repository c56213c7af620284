"""Parts of make_sample_models.py: how the bundled models are made and measured."""
