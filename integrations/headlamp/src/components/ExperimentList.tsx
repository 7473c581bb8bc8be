import { Link, ResourceListView } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { computeProgress, describeBest, describeObjective, readNumber } from '../figures';
import { Experiment, TRIAL_DETAILS } from '../resources';
import { describeExperiment } from '../status';
import { StatusChip } from './StatusChip';

/** All experiments that the user may list. */
export function ExperimentList() {
  return (
    <ResourceListView
      id="podtune-experiments"
      title="Experiments"
      resourceClass={Experiment}
      headerProps={{ titleSideActions: [] }}
      columns={[
        'name',
        // Headlamp's own column is the first to go where there is little room.
        {
          id: 'namespace',
          label: 'Namespace',
          gridTemplate: 'auto',
          filterVariant: 'multi-select',
          getValue: item => item.getNamespace(),
        },
        'cluster',
        {
          id: 'status',
          label: 'Status',
          gridTemplate: 'min-content',
          filterVariant: 'multi-select',
          getValue: ({ manifest }) => describeExperiment(manifest).word,
          render: ({ manifest }) => <StatusChip status={describeExperiment(manifest)} />,
        },
        {
          id: 'progress',
          label: 'Trials done',
          gridTemplate: 'min-content',
          getValue: ({ manifest }) => computeProgress(manifest).done,
          render: ({ manifest }) => <>{computeProgress(manifest).text}</>,
        },
        {
          id: 'best',
          label: 'Best',
          gridTemplate: 'auto',
          getValue: ({ manifest }) => readNumber(manifest.status?.best?.value),
          render: ({ manifest }) => <>{describeBest(manifest)}</>,
        },
        {
          id: 'best-trial',
          label: 'Best trial',
          gridTemplate: 'auto',
          getValue: ({ manifest }) => manifest.status?.best?.trial,
          render: item => <BestTrialLink experiment={item} />,
        },
        {
          id: 'failed',
          label: 'Failed',
          gridTemplate: 'min-content',
          getValue: ({ manifest }) => manifest.status?.trials?.error ?? 0,
        },
        {
          id: 'running',
          label: 'Running',
          gridTemplate: 'min-content',
          getValue: ({ manifest }) => manifest.status?.trials?.running ?? 0,
        },
        {
          id: 'objective',
          label: 'Objective',
          gridTemplate: 'auto',
          getValue: ({ manifest }) => describeObjective(manifest),
        },
        {
          id: 'message',
          label: 'Message',
          show: false,
          getValue: ({ manifest }) => describeExperiment(manifest).message,
        },
        'age',
      ]}
    />
  );
}

/** The trial with the best value, if there is one yet. */
export function BestTrialLink({ experiment }: { experiment: Experiment }) {
  const name = experiment.manifest.status?.best?.trial;
  return name ? (
    <Link
      routeName={TRIAL_DETAILS}
      params={{ namespace: experiment.getNamespace(), name }}
      activeCluster={experiment.cluster}
    >
      {name}
    </Link>
  ) : null;
}
