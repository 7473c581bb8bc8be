// @vitest-environment node
import { describe, expect, it } from 'vitest';
import { Parameter } from './api';
import {
  computeProgress,
  describeAttempts,
  describeBest,
  describeBestOfTrial,
  describeConfiguration,
  describeCounts,
  describeLastResult,
  describeObjective,
  describeParameter,
  findPod,
  formatNumber,
  getParameters,
  isPodOf,
  readNumber,
} from './figures';
import { findGolden, readGolden } from './testdata';

describe('an experiment', () => {
  const complete = () => findGolden('Experiment', 'digits', it => it.status?.state === 'Complete');

  it('says how far it is', () => {
    expect(computeProgress(complete())).toEqual({ done: 24, expected: 24, text: '24 / 24' });
  });

  it('counts trials that people have added', () => {
    const manifest = findGolden('Experiment', 'digits', it => it.status?.state === 'Created');
    manifest.status = {
      trials: { total: 2, added: 2, running: 2, paused: 0, terminated: 0, error: 0 },
    };
    expect(computeProgress(manifest).text).toBe('0 / 26');
  });

  it('has no end in sight without a limit', () => {
    const manifest = complete();
    manifest.spec.search = { maxTrials: 'unlimited' };
    expect(computeProgress(manifest)).toEqual({ done: 24, expected: undefined, text: '24' });
  });

  it('says nothing of trials before an operator has seen it', () => {
    const manifest = findGolden('Experiment', 'gated');
    expect(describeCounts(manifest)).toBe('');
    expect(describeBest(manifest)).toBe('');
    expect(computeProgress(manifest).done).toBe(0);
  });

  it('counts trials as its message does', () => {
    const counted = readGolden('Experiment').filter(it =>
      it.status?.message?.includes('trials done')
    );
    expect(counted.length).toBeGreaterThan(5);
    for (const manifest of counted) {
      const text = computeProgress(manifest).text.replace(' / ', ' of ');
      expect(manifest.status?.message).toContain(`${text} trials done`);
    }
  });

  it('shows the best value as the operator words it, or else four digits of it', () => {
    const manifest = complete();
    expect(describeBest(manifest)).toMatch(/^accuracy 0\.\d{1,4}$/);
    manifest.status!.best!.text = '0.97 ± 0.01';
    expect(describeBest(manifest)).toBe('accuracy 0.97 ± 0.01');
  });

  it('names all objectives', () => {
    const manifest = complete();
    manifest.spec.objective = {
      metric: 'accuracy',
      mode: 'max',
      others: [{ metric: 'size', mode: 'min' }],
    };
    expect(describeObjective(manifest)).toBe('max accuracy, min size');
  });
});

describe('a trial', () => {
  const paused = () => findGolden('Trial', 'pause-0', it => it.status?.state === 'PAUSED');
  const running = () => findGolden('Trial', 'pause-0', it => it.status?.state === 'RUNNING');

  it('shows the last values of the objectives', () => {
    expect(describeLastResult(running(), ['value'])).toBe('value 0.6563, iteration 7');
    expect(describeLastResult(findGolden('Trial', 'heir-0'), ['value'])).toBe('');
  });

  it('shows the best value', () => {
    expect(describeBestOfTrial(running())).toBe('0.6563');
  });

  it('shows what it runs with, not what was proposed', () => {
    const manifest = running();
    manifest.status!.parameters = { base: '0.75' };
    expect(describeConfiguration(getParameters(manifest))).toBe('base 0.75');
    manifest.status!.parameters = {};
    expect(getParameters(manifest)).toBe(manifest.spec.parameters);
  });

  it('says how often it was tried, and what went wrong', () => {
    expect(describeAttempts(findGolden('Trial', 'broken-0'))).toBe('2 (2 failures)');
    expect(describeAttempts(findGolden('Trial', 'evicted-0'))).toBe('1 (1 disruption)');
  });

  it('has a pod to look at only while it has one', () => {
    expect(findPod(running())).toBe('pause-0-2');
    expect(findPod(findGolden('Trial', 'data-1'))).toBe('data-1-1');
    expect(findPod(paused())).toBeUndefined();
    expect(findPod(findGolden('Trial', 'evicted-0'))).toBeUndefined();
  });

  it('knows its pods by its label, and a pod that serves many by its name', () => {
    const manifest = running();
    expect(isPodOf(manifest, { name: 'x', labels: { 'podtune.dev/trial': 'pause-0' } })).toBe(true);
    expect(isPodOf(manifest, { name: 'pause-0-2' })).toBe(true);
    expect(isPodOf(manifest, { name: 'x', labels: { 'podtune.dev/trial': 'pause-1' } })).toBe(
      false
    );
  });
});

describe('a parameter', () => {
  const cases: [Parameter, string][] = [
    [{ name: 'a', float: { min: 0.001, max: 1, scale: 'log' } }, '0.001 to 1, log scale'],
    [{ name: 'a', int: { min: 8, max: 64, step: 8 } }, '8 to 64, whole numbers, in steps of 8'],
    [{ name: 'a', choice: { values: ['adam', 3, true] } }, 'adam, 3, true'],
    [{ name: 'a', normal: { mean: 0, stddev: 2 } }, 'normal, mean 0, deviation 2'],
    [{ name: 'a', logNormal: { mean: 0, stddev: 2 } }, 'log-normal, mean 0, deviation 2'],
    [{ name: 'a', fixed: { value: 0.9 } }, 'always 0.9'],
    [{ name: 'a', expression: '2 * b' }, '= 2 * b'],
  ];

  it.each(cases)('is described: %j', (parameter, text) => {
    expect(describeParameter(parameter)).toBe(text);
  });

  it('is described in all kept experiments', () => {
    for (const manifest of readGolden('Experiment')) {
      for (const parameter of manifest.spec.parameters) {
        expect(describeParameter(parameter)).not.toBe('');
      }
    }
  });
});

describe('a number', () => {
  it('has four digits', () => {
    expect(formatNumber('0.37865524157')).toBe('0.3787');
    expect(formatNumber('0.000012345678')).toBe('0.00001235');
    expect(formatNumber('12345')).toBe('12345');
  });

  it('stays as it is where it is none', () => {
    expect(['adam', '', 'nan', 'inf'].map(formatNumber)).toEqual(['adam', '', 'nan', 'inf']);
    expect(['adam', '', 'nan', undefined].map(readNumber)).toEqual(Array(4).fill(undefined));
  });
});
