import { StatusLabel, StatusLabelProps } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import Box from '@mui/material/Box';
import { Health, Status } from '../status';

const COLOURS: Record<Health, StatusLabelProps['status']> = {
  Progressing: '',
  Healthy: 'success',
  Suspended: 'warning',
  Degraded: 'error',
};

/** The status in one word, coloured by health. */
export function StatusChip({ status }: { status: Status }) {
  return <StatusLabel status={COLOURS[status.health]}>{status.word}</StatusLabel>;
}

/** The same, and the sentence that explains it. */
export function StatusLine({ status }: { status: Status }) {
  return (
    <Box display="flex" alignItems="center" flexWrap="wrap" gap={1}>
      <StatusChip status={status} />
      <span>{status.message}</span>
    </Box>
  );
}
