# `docker build -t combee .`, then `docker run --rm -u "$(id -u)" -v "$PWD:/work" combee learn my.jsonl`.
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN python -m venv /opt/combee \
 && /opt/combee/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements/base.txt \
 && /opt/combee/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
COPY --from=build /opt/combee /opt/combee
RUN useradd --create-home combee && mkdir /work && chown combee /work
ENV PATH=/opt/combee/bin:$PATH PYTHONUNBUFFERED=1
USER combee
WORKDIR /work
ENTRYPOINT ["combee"]
CMD ["--help"]
