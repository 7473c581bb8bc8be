/**
 * What can be asked of an Experiment or a Trial: the actions that Argo CD's menu has, as merge patches of the spec.
 *
 * `kubectl podtune` sets the same fields. Headlamp sends the patch with the user's own rights.
 */
import { ExperimentManifest, ExperimentSpec, TrialManifest, TrialSpec } from './api';
import { PAUSE, PLAY, STOP } from './icons';
import { hasEnded } from './status';

/** A merge patch: null takes a field away. */
export type MergePatch<T> = { [K in keyof T]?: MergePatch<NonNullable<T[K]>> | T[K] | null };

export interface Action<Manifest, Spec> {
  name: 'suspend' | 'pause' | 'resume' | 'stop';
  label: string;
  icon: { body: string };
  /** Whether it would change anything. */
  isOffered: (manifest: Manifest) => boolean;
  buildSpec: (manifest: Manifest) => MergePatch<Spec>;
  /** What will happen, for people to say yes to. */
  explain: (manifest: Manifest) => string;
}

const isStopping = ({ spec }: ExperimentManifest) => spec.stop?.now === true;
const isSuspended = ({ spec }: ExperimentManifest) => spec.suspend === true;

export const EXPERIMENT_ACTIONS: Action<ExperimentManifest, ExperimentSpec>[] = [
  {
    name: 'suspend',
    label: 'Suspend',
    icon: PAUSE,
    isOffered: it => !hasEnded(it) && !isStopping(it) && !isSuspended(it),
    buildSpec: () => ({ suspend: true }),
    explain: ({ spec }) =>
      spec.checkpoints?.store
        ? 'Each running trial stores a checkpoint, then its pods are deleted. Resume continues from there.'
        : 'The pods of all running trials are deleted. There is no checkpoints.store, so these trials start from scratch when you resume.',
  },
  {
    name: 'resume',
    label: 'Resume',
    icon: PLAY,
    isOffered: it => hasEnded(it) || isSuspended(it),
    buildSpec: it => (hasEnded(it) ? buildNextRun(it) : { suspend: false }),
    explain: it =>
      hasEnded(it)
        ? 'Trials that were stopped with the experiment go on; those that failed or came to a good end stay as they are. The experiment ends again if its limits say so.'
        : 'Trials go on from their checkpoints as soon as there is room for their pods.',
  },
  {
    name: 'stop',
    label: 'Stop',
    icon: STOP,
    isOffered: it => !hasEnded(it) && !isStopping(it),
    buildSpec: () => ({ stop: { now: true } }),
    explain: () =>
      'No more trials are made, and the running ones end once their checkpoints are stored.',
  },
];

/** One that has ended goes on when spec.resume.id changes; what an earlier request said of its trials is not repeated. */
function buildNextRun({ spec }: ExperimentManifest): MergePatch<ExperimentSpec> {
  const known = spec.resume?.id ?? '';
  const number = /^\d+$/.test(known) ? Number(known) + 1 : 1;
  return {
    resume: { id: String(number), unfinished: null, errored: null, finished: null },
    suspend: false,
    ...(isStopping({ spec } as ExperimentManifest) ? { stop: { now: null } } : {}),
  };
}

const getDesiredState = ({ spec }: TrialManifest) => spec.desiredState ?? 'Running';

export const TRIAL_ACTIONS: Action<TrialManifest, TrialSpec>[] = [
  {
    name: 'pause',
    label: 'Pause',
    icon: PAUSE,
    isOffered: it => !hasEnded(it) && getDesiredState(it) === 'Running',
    buildSpec: () => ({ desiredState: 'Paused' }),
    explain: () =>
      'The trial stores a checkpoint, then its pods are deleted. Without a checkpoints.store, a running trial is not paused: it would lose its progress.',
  },
  {
    name: 'resume',
    label: 'Resume',
    icon: PLAY,
    isOffered: it => !hasEnded(it) && getDesiredState(it) === 'Paused',
    buildSpec: () => ({ desiredState: 'Running' }),
    explain: () => 'The trial goes on from its checkpoint as soon as a slot is free.',
  },
  {
    name: 'stop',
    label: 'Stop',
    icon: STOP,
    isOffered: it => !hasEnded(it) && getDesiredState(it) !== 'Stopped',
    buildSpec: () => ({ desiredState: 'Stopped' }),
    explain: () => 'The trial ends for good. Its results and checkpoints stay.',
  },
];
