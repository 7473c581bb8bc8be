import {
  DateLabel,
  DetailsGrid,
  Link,
  NameValueTable,
  SectionBox,
  SimpleTable,
} from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import Pod from '@kinvolk/headlamp-plugin/lib/K8s/pod';
import { useParams } from 'react-router-dom';
import { TRIAL_ACTIONS } from '../actions';
import { LABEL_EXPERIMENT } from '../api';
import {
  describeAttempts,
  describeBestOfTrial,
  formatHours,
  getParameters,
  isPodOf,
} from '../figures';
import { Trial } from '../resources';
import { describeTrial } from '../status';
import { ActionButtons } from './ActionButtons';
import { ConditionsSection } from './ConditionsSection';
import { StatusLine } from './StatusChip';
import { ExperimentLink } from './TrialTable';

const SECONDS_PER_HOUR = 3600;

export function TrialDetails() {
  const { namespace, name } = useParams<{ namespace: string; name: string }>();
  return (
    <DetailsGrid
      resourceType={Trial}
      namespace={namespace}
      name={name}
      withEvents
      actions={item => (item ? [<ActionButtons item={item} actions={TRIAL_ACTIONS} />] : [])}
      extraInfo={item => item && buildFacts(item)}
      extraSections={item =>
        item && [
          { id: 'podtune-pods', section: <PodsSection trial={item} /> },
          {
            id: 'podtune-parameters',
            section: <ValuesSection title="Parameters" values={getParameters(item.manifest)} />,
          },
          {
            id: 'podtune-last-result',
            section: (
              <ValuesSection title="Last result" values={item.manifest.status?.lastResult} />
            ),
          },
          { id: 'podtune-last-attempt', section: <LastAttemptSection trial={item} /> },
          {
            id: 'podtune-conditions',
            section: <ConditionsSection conditions={item.manifest.status?.conditions} />,
          },
        ]
      }
    />
  );
}

function buildFacts(trial: Trial) {
  const { manifest } = trial;
  const { spec, status } = manifest;
  return [
    { name: 'Status', value: <StatusLine status={describeTrial(manifest)} /> },
    { name: 'Reason', value: status?.reason, hide: !status?.reason },
    { name: 'Experiment', value: <ExperimentLink trial={trial} /> },
    { name: 'Name for people', value: spec.displayName, hide: !spec.displayName },
    { name: 'Best', value: describeBestOfTrial(manifest), hide: !status?.bestValue },
    { name: 'Iteration', value: `${status?.iteration}`, hide: status?.iteration === undefined },
    {
      name: 'Last result',
      value: <DateLabel date={status?.lastResultTime ?? ''} />,
      hide: !status?.lastResultTime,
    },
    { name: 'Attempts', value: describeAttempts(manifest) },
    { name: 'Node', value: status?.pod?.node, hide: !status?.pod?.node },
    {
      name: 'Checkpoint',
      value: `iteration ${status?.checkpoint?.step}: ${status?.checkpoint?.uri}`,
      hide: !status?.checkpoint,
    },
    {
      name: 'Used',
      value: `${formatHours(
        (status?.usage?.gpuSeconds ?? 0) / SECONDS_PER_HOUR
      )} of GPUs, ${formatHours((status?.usage?.podSeconds ?? 0) / SECONDS_PER_HOUR)} of pods`,
      hide: !status?.usage,
    },
  ];
}

/** The trial's pods that there are now; of a gang, all of them. */
function PodsSection({ trial }: { trial: Trial }) {
  const { items, error } = Pod.useList({
    cluster: trial.cluster,
    namespace: trial.getNamespace(),
    labelSelector: `${LABEL_EXPERIMENT}=${trial.manifest.spec.experiment}`,
  });
  return (
    <SectionBox title="Pods">
      <SimpleTable
        data={items && items.filter(pod => isPodOf(trial.manifest, pod.metadata))}
        errorMessage={error && `The pods can’t be listed: ${error.message}`}
        emptyMessage="There is no pod now."
        columns={[
          { label: 'Name', getter: (pod: Pod) => <Link kubeObject={pod} /> },
          { label: 'Status', getter: (pod: Pod) => pod.getDetailedStatus().reason },
          { label: 'Restarts', getter: (pod: Pod) => pod.getDetailedStatus().restarts },
          { label: 'Node', getter: (pod: Pod) => pod.spec.nodeName },
          { label: 'Age', getter: (pod: Pod) => <DateLabel date={pod.getCreationTs()} /> },
        ]}
      />
    </SectionBox>
  );
}

interface ValuesSectionProps {
  title: string;
  values: Record<string, string> | undefined;
}

function ValuesSection({ title, values }: ValuesSectionProps) {
  const rows = Object.entries(values ?? {}).map(([name, value]) => ({ name, value }));
  return rows.length === 0 ? null : (
    <SectionBox title={title}>
      <NameValueTable rows={rows} />
    </SectionBox>
  );
}

/** How the last attempt ended, with the last lines of its log. */
function LastAttemptSection({ trial }: { trial: Trial }) {
  const last = trial.manifest.status?.lastAttempt;
  return last === undefined ? null : (
    <SectionBox title={`How attempt ${last.attempt} ended`}>
      <NameValueTable
        rows={[
          { name: 'Reason', value: last.reason },
          { name: 'Message', value: last.message, hide: !last.message },
          { name: 'Exit code', value: `${last.exitCode}`, hide: last.exitCode === undefined },
          { name: 'Last lines', value: <pre>{last.logTail}</pre>, hide: !last.logTail },
        ]}
      />
    </SectionBox>
  );
}
