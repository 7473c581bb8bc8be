import {
  DetailsGrid,
  Link,
  SectionBox,
  SimpleTable,
} from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { useParams } from 'react-router-dom';
import { EXPERIMENT_ACTIONS } from '../actions';
import { LABEL_EXPERIMENT, Parameter } from '../api';
import {
  computeProgress,
  describeBest,
  describeCounts,
  describeObjective,
  describeParameter,
  formatHours,
  formatNumber,
  listCriteria,
} from '../figures';
import { Experiment, Trial, TRIAL_DETAILS } from '../resources';
import { describeExperiment } from '../status';
import { ActionButtons } from './ActionButtons';
import { ConditionsSection } from './ConditionsSection';
import { BestTrialLink } from './ExperimentList';
import { StatusLine } from './StatusChip';
import { TrialTable } from './TrialTable';

export function ExperimentDetails() {
  const { namespace, name } = useParams<{ namespace: string; name: string }>();
  return (
    <DetailsGrid
      resourceType={Experiment}
      namespace={namespace}
      name={name}
      withEvents
      actions={item => (item ? [<ActionButtons item={item} actions={EXPERIMENT_ACTIONS} />] : [])}
      extraInfo={item => item && buildFacts(item)}
      extraSections={item =>
        item && [
          { id: 'podtune-parameters', section: <ParametersSection experiment={item} /> },
          { id: 'podtune-front', section: <FrontSection experiment={item} /> },
          { id: 'podtune-trials', section: <TrialsSection experiment={item} /> },
          {
            id: 'podtune-conditions',
            section: <ConditionsSection conditions={item.manifest.status?.conditions} />,
          },
        ]
      }
    />
  );
}

function buildFacts(experiment: Experiment) {
  const { manifest } = experiment;
  const { spec, status } = manifest;
  return [
    { name: 'Status', value: <StatusLine status={describeExperiment(manifest)} /> },
    { name: 'Objective', value: describeObjective(manifest) },
    {
      name: 'Best',
      value: (
        <>
          {describeBest(manifest)} by <BestTrialLink experiment={experiment} />
        </>
      ),
      hide: !status?.best?.trial,
    },
    {
      name: 'Best checkpoint',
      value: status?.best?.checkpoint,
      hide: !status?.best?.checkpoint,
    },
    { name: 'Trials done', value: computeProgress(manifest).text },
    { name: 'Trials by state', value: describeCounts(manifest), hide: !describeCounts(manifest) },
    { name: 'Algorithm', value: spec.search?.algorithm, hide: !spec.search?.algorithm },
    {
      name: 'Used',
      value: `${formatHours(status?.usage?.gpuHours)} of GPUs, ${formatHours(
        status?.usage?.podHours
      )} of pods`,
      hide: !status?.usage,
    },
  ];
}

function ParametersSection({ experiment }: { experiment: Experiment }) {
  const { spec, status } = experiment.manifest;
  const best = status?.best?.parameters;
  return (
    <SectionBox title="Parameters">
      <SimpleTable
        data={spec.parameters}
        columns={[
          { label: 'Parameter', getter: (it: Parameter) => it.name },
          { label: 'Values', getter: (it: Parameter) => describeParameter(it) },
          { label: 'Best', getter: (it: Parameter) => formatNumber(best?.[it.name] ?? '') },
        ]}
      />
    </SectionBox>
  );
}

type Point = { trial: string; values?: Record<string, string> };

/** With several objectives, the trials that no other beats in all of them. */
function FrontSection({ experiment }: { experiment: Experiment }) {
  const { spec, status } = experiment.manifest;
  if (!status?.paretoFront?.length) {
    return null;
  }
  return (
    <SectionBox title="Pareto front">
      <SimpleTable
        data={status.paretoFront}
        columns={[
          {
            label: 'Trial',
            getter: (it: Point) => (
              <Link
                routeName={TRIAL_DETAILS}
                params={{ namespace: experiment.getNamespace(), name: it.trial }}
                activeCluster={experiment.cluster}
              >
                {it.trial}
              </Link>
            ),
          },
          ...listCriteria(spec.objective).map(({ metric }) => ({
            label: metric,
            getter: (it: Point) => formatNumber(it.values?.[metric] ?? ''),
          })),
        ]}
      />
    </SectionBox>
  );
}

function TrialsSection({ experiment }: { experiment: Experiment }) {
  const { items, error } = Trial.useList({
    cluster: experiment.cluster,
    namespace: experiment.getNamespace(),
    labelSelector: `${LABEL_EXPERIMENT}=${experiment.getName()}`,
  });
  const criteria = listCriteria(experiment.manifest.spec.objective);
  return error ? (
    <SectionBox title="Trials">The trials can’t be listed: {error.message}</SectionBox>
  ) : (
    <TrialTable
      trials={items}
      metrics={criteria.map(each => each.metric)}
      isMaximized={criteria[0]?.mode === 'max'}
    />
  );
}
