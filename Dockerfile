# The app as a non-root user on a read-only root: only /tmp is written, for compiled code.
# BLAS has one thread: the app has a pool of its own, beside which those of BLAS spin.
# A base of your own choice or by digest: `docker build --build-arg BASE=python@sha256:...`
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin inferscape
WORKDIR /srv
COPY requirements.lock .
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY entries entries
COPY hardware_specs hardware_specs
COPY model_zoo model_zoo
COPY engine engine
COPY app app
COPY .streamlit .streamlit
ENV PYTHONPATH=/srv PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp \
    NUMBA_THREADING_LAYER=threadsafe OPENBLAS_NUM_THREADS=1 INFERSCAPE_NUMBA_BAKED=/opt/numba
RUN NUMBA_CACHE_DIR=/opt/numba python -m engine.cli.warm && chmod -R a+rX /opt/numba
USER 10001
EXPOSE 8501
HEALTHCHECK --interval=15s --timeout=3s --start-period=40s CMD ["python", "-c", "import urllib.request as u; assert u.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=2).read() == b'ok'"]
CMD ["python", "-m", "app.server.supervise", "--server.address", "0.0.0.0"]
