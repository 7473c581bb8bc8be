/**
 * What an Experiment or a Trial is doing, in one word, and how that is to be taken.
 *
 * The health is that of Argo CD's checks in integrations/argo-cd, which follow kstatus; the tests compare both.
 */
import { Condition, ExperimentManifest, TrialManifest } from './api';

export type Health = 'Progressing' | 'Healthy' | 'Degraded' | 'Suspended';

export interface Status {
  word: string;
  health: Health;
  message: string;
}

const UNSEEN: Status = {
  word: 'Waiting',
  health: 'Progressing',
  message: 'Waiting for the operator to look at the spec',
};

/** The condition, where it is True. */
export function findTrue(
  conditions: Condition[] | undefined,
  ...types: string[]
): Condition | undefined {
  return types
    .map(type => conditions?.find(each => each.type === type && each.status === 'True'))
    .find(found => found !== undefined);
}

/** Whether it is complete or has failed, so that nothing of it goes on. */
export function hasEnded(manifest: ExperimentManifest | TrialManifest): boolean {
  return findTrue(manifest.status?.conditions, 'Complete', 'Failed') !== undefined;
}

export function describeExperiment(manifest: ExperimentManifest): Status {
  const { metadata, status } = manifest;
  if (metadata.deletionTimestamp) {
    return { word: 'Terminating', health: 'Progressing', message: status?.message ?? '' };
  }
  if (status?.observedGeneration !== metadata.generation || status === undefined) {
    return UNSEEN;
  }
  const message = status.message ?? '';
  const trouble = findTrue(status.conditions, 'Failed', 'Stalled');
  if (trouble) {
    return { word: trouble.type, health: 'Degraded', message: trouble.message || message };
  }
  if (findTrue(status.conditions, 'Complete')) {
    return { word: 'Complete', health: 'Healthy', message };
  }
  if (findTrue(status.conditions, 'Suspended')) {
    return { word: 'Suspended', health: 'Suspended', message };
  }
  // Its reason is Suspending or Stopping: trials still store their checkpoints. Release 0.2 had no such condition.
  const changing =
    findTrue(status.conditions, 'Reconciling')?.reason ??
    (status.state === 'Suspended' ? 'Suspending' : undefined);
  return { word: changing ?? status.state ?? UNSEEN.word, health: 'Progressing', message };
}

export function describeTrial(manifest: TrialManifest): Status {
  const { metadata, status } = manifest;
  if (metadata.deletionTimestamp) {
    return { word: 'Terminating', health: 'Progressing', message: status?.message ?? '' };
  }
  if (status?.observedGeneration !== metadata.generation || status === undefined) {
    return UNSEEN;
  }
  return {
    word: status.state ?? UNSEEN.word,
    health: findHealthOfTrial(manifest),
    message: status.message ?? '',
  };
}

function findHealthOfTrial({ status }: TrialManifest): Health {
  if (status?.state === 'PAUSED') {
    return 'Suspended';
  }
  if (findTrue(status?.conditions, 'Failed')) {
    return 'Degraded';
  }
  return findTrue(status?.conditions, 'Complete') ? 'Healthy' : 'Progressing';
}
