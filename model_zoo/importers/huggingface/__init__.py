"""Model configurations in the style of Hugging Face (`config.json`) as workloads."""

from model_zoo.importers.huggingface.keys import MAX_BYTES, config_of
from model_zoo.importers.huggingface.workload import id_from, read_config, read_config_file, to_yaml
