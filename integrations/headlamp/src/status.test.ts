// @vitest-environment node
import { describe, expect, it } from 'vitest';
import { describeExperiment, describeTrial, hasEnded } from './status';
import { findGolden, listHealthTests, readGolden } from './testdata';

describe('the health of an experiment', () => {
  it.each(listHealthTests('Experiment'))(
    'is what Argo CD shows: $path',
    ({ manifest, status, message }) => {
      expect(describeExperiment(manifest)).toMatchObject({ health: status, message });
    }
  );
});

describe('the health of a trial', () => {
  it.each(listHealthTests('Trial'))(
    'is what Argo CD shows: $path',
    ({ manifest, status, message }) => {
      expect(describeTrial(manifest)).toMatchObject({ health: status, message });
    }
  );
});

describe('the word for an experiment', () => {
  const words = Object.fromEntries(
    listHealthTests('Experiment').map(({ path, manifest }) => [
      path.replace(/.*\/|\.yaml/g, ''),
      describeExperiment(manifest).word,
    ])
  );

  it('tells what it is doing', () => {
    expect(words).toEqual({
      applied: 'Waiting',
      changed: 'Waiting',
      running: 'Running',
      resumed: 'Running',
      suspending: 'Suspending',
      suspended: 'Suspended',
      stopping: 'Stopping',
      stopped: 'Complete',
      complete: 'Complete',
      failed: 'Failed',
      stalled: 'Stalled',
    });
  });

  it('tells a suspension that is under way from one that is done, of release 0.2, too', () => {
    const words = readGolden('Experiment')
      .filter(it => it.metadata.name === 'suspend' && it.status?.state === 'Suspended')
      .map(it => [it.status?.message?.split(':')[0], describeExperiment(it).word]);
    expect(Object.fromEntries(words)).toEqual({ suspending: 'Suspending', suspended: 'Suspended' });
  });

  it('says when it is being deleted', () => {
    const manifest = findGolden('Experiment', 'digits');
    manifest.metadata.deletionTimestamp = '2026-11-27T03:00:00Z';
    expect(describeExperiment(manifest).word).toBe('Terminating');
  });
});

describe('the word for a trial', () => {
  it('is its state', () => {
    for (const manifest of readGolden('Trial')) {
      expect(describeTrial(manifest).word).toBe(manifest.status?.state ?? 'Waiting');
    }
  });

  it('says when it is being deleted', () => {
    const manifest = findGolden('Trial', 'pause-0');
    manifest.metadata.deletionTimestamp = '2026-11-27T03:00:00Z';
    expect(describeTrial(manifest).word).toBe('Terminating');
  });
});

it('has ended exactly where its state says so', () => {
  const ended = ['Complete', 'Failed', 'TERMINATED', 'ERROR'];
  for (const manifest of [...readGolden('Experiment'), ...readGolden('Trial')]) {
    expect(hasEnded(manifest)).toBe(ended.includes(manifest.status?.state ?? ''));
  }
});
