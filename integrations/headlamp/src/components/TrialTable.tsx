import {
  Link,
  ResourceListView,
  ResourceTableColumn,
} from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import {
  describeAttempts,
  describeBestOfTrial,
  describeConfiguration,
  describeLastResult,
  findPod,
  getParameters,
  readNumber,
} from '../figures';
import { EXPERIMENT_DETAILS, Trial } from '../resources';
import { describeTrial } from '../status';
import { StatusChip } from './StatusChip';

/** The columns of a table of trials; the metrics are those of their experiment's objectives, if it has been read. */
function buildColumns(metrics: string[]): ResourceTableColumn<Trial>[] {
  return [
    {
      id: 'state',
      label: 'State',
      gridTemplate: 'min-content',
      filterVariant: 'multi-select',
      getValue: ({ manifest }) => describeTrial(manifest).word,
      render: ({ manifest }) => <StatusChip status={describeTrial(manifest)} />,
    },
    {
      id: 'best',
      label: 'Best',
      gridTemplate: 'min-content',
      getValue: ({ manifest }) => readNumber(manifest.status?.bestValue),
      render: ({ manifest }) => <>{describeBestOfTrial(manifest)}</>,
    },
    {
      id: 'last',
      label: 'Last result',
      gridTemplate: 'auto',
      getValue: ({ manifest }) => describeLastResult(manifest, metrics),
    },
    {
      id: 'parameters',
      label: 'Parameters',
      gridTemplate: '1.5fr',
      getValue: ({ manifest }) => describeConfiguration(getParameters(manifest)),
    },
    {
      id: 'attempts',
      label: 'Attempts',
      gridTemplate: 'min-content',
      getValue: ({ manifest }) => describeAttempts(manifest),
    },
    {
      id: 'pod',
      label: 'Pod',
      gridTemplate: 'auto',
      getValue: ({ manifest }) => findPod(manifest),
      render: trial => <PodLink trial={trial} />,
    },
    {
      id: 'reason',
      label: 'Reason',
      gridTemplate: 'auto',
      getValue: ({ manifest }) => manifest.status?.reason,
    },
    {
      id: 'node',
      label: 'Node',
      show: false,
      getValue: ({ manifest }) => manifest.status?.pod?.node,
    },
    {
      id: 'message',
      label: 'Message',
      show: false,
      getValue: ({ manifest }) => describeTrial(manifest).message,
    },
  ];
}

interface TrialTableProps {
  trials: Trial[] | null;
  metrics: string[];
  /** Whether the best value is the highest. */
  isMaximized: boolean;
}

/** The trials of one experiment, the best first. */
export function TrialTable({ trials, metrics, isMaximized }: TrialTableProps) {
  return (
    <ResourceListView
      id={`podtune-trials-of-experiment-${isMaximized ? 'max' : 'min'}`}
      title="Trials"
      headerProps={{ noNamespaceFilter: true, headerStyle: 'subsection' }}
      data={trials}
      columns={['name', ...buildColumns(metrics), 'age']}
      defaultSortingColumn={{ id: 'best', desc: isMaximized }}
    />
  );
}

/** All trials that the user may list, of all experiments. */
export function TrialList() {
  return (
    <ResourceListView
      id="podtune-trials"
      title="Trials"
      resourceClass={Trial}
      headerProps={{ titleSideActions: [] }}
      columns={[
        'name',
        // Headlamp's own column is the first to go where there is little room.
        {
          id: 'namespace',
          label: 'Namespace',
          gridTemplate: 'auto',
          filterVariant: 'multi-select',
          getValue: trial => trial.getNamespace(),
        },
        'cluster',
        {
          id: 'experiment',
          label: 'Experiment',
          gridTemplate: 'auto',
          filterVariant: 'multi-select',
          getValue: ({ manifest }) => manifest.spec.experiment,
          render: trial => <ExperimentLink trial={trial} />,
        },
        ...buildColumns([]).filter(column => column.id !== 'last' && column.id !== 'parameters'),
        'age',
      ]}
    />
  );
}

export function ExperimentLink({ trial }: { trial: Trial }) {
  const name = trial.manifest.spec.experiment;
  return (
    <Link
      routeName={EXPERIMENT_DETAILS}
      params={{ namespace: trial.getNamespace(), name }}
      activeCluster={trial.cluster}
    >
      {name}
    </Link>
  );
}

/** The pod of the current attempt, if there is one. */
export function PodLink({ trial }: { trial: Trial }) {
  const name = findPod(trial.manifest);
  return name ? (
    <Link
      routeName="pod"
      params={{ namespace: trial.getNamespace(), name }}
      activeCluster={trial.cluster}
    >
      {name}
    </Link>
  ) : null;
}
