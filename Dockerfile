# Images from one base: the operator (operator-gp with Gaussian processes, which weigh more than all the rest), the agent
# that stands beside every trial, the dashboard (dashboard-gp with fANOVA, likewise), and the examples.
#   docker build --target operator -t podtune-operator:dev .
# Any base with a Python of 3.11 or later and its venv module will do. Releases have the one that is pinned here, which
# `python -m release.base_image --write` pins anew.
ARG BASE_IMAGE=docker.io/library/python:3.12-slim@sha256:229a2c5bfa27522db7815ea81f9bed70af17ccb9de9fc7ad142b1877b5830d36

# --- what all of them share -------------------------------------------------------------------------------------------
FROM ${BASE_IMAGE} AS build
# A pip of our own: not every base has one, and it stays behind in this stage.
RUN python3 -m venv /venv
# What is tried out below leaves no bytecode, which would tell when it was built.
ENV PYTHONDONTWRITEBYTECODE=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    INSTALL="/venv/bin/pip install --quiet --require-hashes --no-deps --only-binary :all: --no-compile --target /opt/podtune/lib --requirement" \
    COMPILE="python3 -m compileall -q --invalidation-mode unchecked-hash"
# /opt/podtune is read-only to who runs it, so nothing would be compiled later: compiled now, Python starts in a third of the time.

FROM ${BASE_IMAGE} AS runtime
# Nothing is installed in a running container.
RUN rm -rf /usr/local/lib/python3*/site-packages/pip* /usr/local/lib/python3*/ensurepip /usr/local/bin/pip* \
    /usr/share/python-wheels
ENV PATH=/opt/podtune/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/opt/podtune/lib \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    # The numeric users below have no entry in /etc/passwd, and libraries ask for their name.
    USER=podtune
LABEL org.opencontainers.image.title="podtune" \
      org.opencontainers.image.description="Kubernetes-native hyperparameter tuning" \
      org.opencontainers.image.licenses="Apache-2.0"

# --- what serves for months on end ------------------------------------------------------------------------------------
FROM runtime AS server
# Each TLS connection has buffers of 256 KiB. By default malloc learns from the first that is freed to take such memory
# from its heap, which small objects then keep from shrinking: the operator grew by half a megabyte a minute.
ENV MALLOC_MMAP_THRESHOLD_=65536 \
    MALLOC_TRIM_THRESHOLD_=131072 \
    MALLOC_ARENA_MAX=2 \
    # Linear algebra on small matrices is faster with one thread, and its sums don't depend on how many cores a node has.
    OPENBLAS_NUM_THREADS=1

# --- agent: every node that trains pulls it, so it is small -----------------------------------------------------------
FROM build AS agent-build
COPY requirements/agent.txt /requirements.txt
# The AWS SDK describes 400 services; the agent stores objects, with credentials that STS may give.
RUN ${INSTALL} /requirements.txt \
    && find /opt/podtune/lib/botocore/data -mindepth 1 -maxdepth 1 -type d ! -name s3 ! -name sts -exec rm -r {} + \
    && ${COMPILE} /opt/podtune/lib
COPY operator/podtune/__init__.py /opt/podtune/lib/podtune/
COPY operator/podtune/process_start.py /opt/podtune/lib/podtune/
COPY operator/podtune/agent /opt/podtune/lib/podtune/agent
COPY operator/podtune/protocol /opt/podtune/lib/podtune/protocol
COPY operator/podtune/storage /opt/podtune/lib/podtune/storage
COPY operator/podtune/trial /opt/podtune/lib/podtune/trial
RUN mkdir /opt/podtune/bin \
    && printf '#!/usr/bin/env python3\nfrom podtune.agent.entry import start\n\nraise SystemExit(start())\n' > /opt/podtune/bin/podtune-agent \
    && ${COMPILE} /opt/podtune/lib/podtune \
    && chmod -R a+rX,u+w,go-w /opt/podtune && chmod a+x /opt/podtune/bin/*
# What was left out is not missed.
RUN cd / && PYTHONPATH=/opt/podtune/lib python3 -c 'import boto3, podtune.agent.main; \
    [boto3.client(name, region_name="us-east-1") for name in ("s3", "sts")]'

FROM runtime AS agent
COPY --from=agent-build /opt/podtune /opt/podtune
USER 60532:60532
ENTRYPOINT ["podtune-agent"]

# The dashboard's pages are for its own image alone; left out here, they have no other image made anew.
FROM ${BASE_IMAGE} AS operator-source
COPY operator/podtune /podtune
RUN rm -r /podtune/dashboard

# --- operator ---------------------------------------------------------------------------------------------------------
FROM build AS operator-build
COPY requirements/operator.txt /requirements.txt
# Left out: the Kubernetes client's generated classes (we send and read JSON), the database behind Optuna's storage (ours
# is the Kubernetes API), and tests. Both packages import these only when they are asked for.
RUN ${INSTALL} /requirements.txt && cd /opt/podtune/lib \
    && find kubernetes -path '*/client/api/*.py' ! -name __init__.py -delete \
    && find kubernetes -path '*/client/models/*.py' ! -name __init__.py -delete \
    && rm -r sqlalchemy sqlalchemy-* alembic alembic-* mako mako-* \
    && find . -type d -name tests -prune -exec rm -r {} + \
    && ${COMPILE} /opt/podtune/lib
COPY --from=operator-source /podtune /opt/podtune/lib/podtune
RUN mkdir /opt/podtune/bin \
    && printf '#!/usr/bin/env python3\nfrom podtune.app.entry import start_operator\n\nraise SystemExit(start_operator())\n' > /opt/podtune/bin/podtune-operator \
    && ${COMPILE} /opt/podtune/lib/podtune \
    && chmod -R a+rX,u+w,go-w /opt/podtune && chmod a+x /opt/podtune/bin/*
RUN cd / && PYTHONPATH=/opt/podtune/lib python3 -c 'import optuna, podtune.app.main; \
    sampler = optuna.samplers.TPESampler(n_startup_trials=2, multivariate=True); \
    optuna.create_study(sampler=sampler).optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=5)'

FROM server AS operator
COPY --from=operator-build /opt/podtune /opt/podtune
USER 65533:65533
EXPOSE 8080 8081 8443 8444
ENTRYPOINT ["podtune-operator"]

# --- operator-gp: the same with scikit-learn and SciPy, for algorithm gp and scheduler pb2 ----------------------------
FROM operator-build AS operator-gp-build
COPY requirements/gp.txt /requirements.txt
RUN ${INSTALL} /requirements.txt && cd /opt/podtune/lib \
    && find sklearn scipy joblib -type d -name tests -prune -exec rm -r {} + \
    && ${COMPILE} sklearn scipy joblib cloudpickle narwhals threadpoolctl.py \
    && chmod -R a+rX,u+w,go-w /opt/podtune
RUN cd / && PYTHONPATH=/opt/podtune/lib python3 -c 'import podtune.tuning.searchers.gp, podtune.tuning.schedulers.population.gain_model'

FROM server AS operator-gp
COPY --from=operator-gp-build /opt/podtune /opt/podtune
USER 65533:65533
EXPOSE 8080 8081 8443 8444
ENTRYPOINT ["podtune-operator"]

# --- dashboard: experiments in the browser ----------------------------------------------------------------------------
FROM build AS dashboard-build
COPY requirements/dashboard.txt /requirements.txt
# Left out: what help is printed in colours with, and, as from the agent's image, what the AWS SDK knows of other services.
ENV TYPER_USE_RICH=false
RUN ${INSTALL} /requirements.txt && cd /opt/podtune/lib \
    && rm -r rich rich-* pygments pygments-* markdown_it markdown_it_py-* mdurl mdurl-* \
    && find botocore/data -mindepth 1 -maxdepth 1 -type d ! -name s3 ! -name sts -exec rm -r {} + \
    && ${COMPILE} /opt/podtune/lib
COPY operator/podtune /opt/podtune/lib/podtune
RUN mkdir /opt/podtune/bin \
    && printf '#!/usr/bin/env python3\nfrom podtune.dashboard.__main__ import start_dashboard\n\nraise SystemExit(start_dashboard())\n' > /opt/podtune/bin/podtune-dashboard \
    && ${COMPILE} /opt/podtune/lib/podtune \
    && chmod -R a+rX,u+w,go-w /opt/podtune && chmod a+x /opt/podtune/bin/*
RUN cd / && export PYTHONPATH=/opt/podtune/lib && /opt/podtune/bin/podtune-dashboard --help > /dev/null \
    && python3 -c 'import boto3, obstore.store; boto3.client("s3", region_name="us-east-1")'

FROM server AS dashboard
COPY --from=dashboard-build /opt/podtune /opt/podtune
ENV TYPER_USE_RICH=false
USER 65531:65531
EXPOSE 8080
ENTRYPOINT ["podtune-dashboard"]

# --- dashboard-gp: the same with scikit-learn and SciPy, for importance by fANOVA ---------------------------------------
FROM dashboard-build AS dashboard-gp-build
COPY requirements/gp.txt /requirements.txt
RUN ${INSTALL} /requirements.txt && cd /opt/podtune/lib \
    && find numpy sklearn scipy joblib -type d -name tests -prune -exec rm -r {} + \
    && ${COMPILE} numpy sklearn scipy joblib cloudpickle narwhals threadpoolctl.py \
    && chmod -R a+rX,u+w,go-w /opt/podtune
# A forest grows without what was left out.
RUN cd / && PYTHONPATH=/opt/podtune/lib python3 -c 'from podtune.dashboard.charts.importance.bars import has_forests; \
    from podtune.tuning.fanova import ParameterValues, estimate_variance_shares; \
    values = [number / 40 for number in range(40)]; \
    shares = estimate_variance_shares(values, [ParameterValues("x", 0, 1, False, values)], 1); \
    assert has_forests() and shares is not None and shares.importances[0].share > 0.99'

FROM server AS dashboard-gp
COPY --from=dashboard-gp-build /opt/podtune /opt/podtune
ENV TYPER_USE_RICH=false
USER 65531:65531
EXPOSE 8080
ENTRYPOINT ["podtune-dashboard"]

# --- examples: training programs; all they need of Podtune is podtune.trial -------------------------------------------
FROM build AS examples-build
COPY examples/digits/requirements.txt /requirements.txt
RUN ${INSTALL} /requirements.txt && cd /opt/podtune/lib \
    && find sklearn scipy -type d -name tests -prune -exec rm -r {} + \
    && ${COMPILE} /opt/podtune/lib \
    && PYTHONPATH=/opt/podtune/lib python3 -c 'from sklearn.datasets import load_digits; \
    from sklearn.neural_network import MLPClassifier; MLPClassifier(max_iter=200).fit(*load_digits(return_X_y=True))'
COPY operator/podtune/__init__.py /opt/podtune/lib/podtune/
COPY operator/podtune/process_start.py /opt/podtune/lib/podtune/
COPY operator/podtune/trial /opt/podtune/lib/podtune/trial
COPY examples/digits /opt/podtune/digits
RUN ${COMPILE} /opt/podtune/lib/podtune && chmod -R a+rX,u+w,go-w /opt/podtune

FROM runtime AS examples
COPY --from=examples-build /opt/podtune /opt/podtune
WORKDIR /opt/podtune/digits
USER 10001:10001
CMD ["python3", "digits.py"]
