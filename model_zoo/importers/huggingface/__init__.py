"""Model configurations in the style of Hugging Face (`config.json`) as workloads."""

from model_zoo.importers.huggingface.workload import read_config, read_config_file, written

__all__ = ["read_config", "read_config_file", "written"]
