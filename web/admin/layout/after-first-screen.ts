// What no screen needs to show its data: loaded afterwards.
export { LiveChanges } from '../live/live-changes.tsx';
export { DeviceNotices } from '../notices/device-notices.tsx';
export { StaffNotices } from './staff-notices.tsx';
