// The riders of a simulation, and their links.
import type { StaffActor } from './staff-actor.ts';

export interface Rider {
  id: string;
  name: string;
  phone: string;
  /** Of the link that staff opened last; all devices of the rider have it. */
  secret: string;
}

/** Creates the riders of a simulation, each with a link. */
export async function createRiders(staff: StaffActor, count: number): Promise<Rider[]> {
  const riders: Rider[] = [];
  for (let number = 1; number <= count; number += 1) {
    const details = { name: `Rider ${number}`, phone: `071900000${number}`, vehicle: 'Motorbike' };
    const saved = await staff.call('save_rider', details);
    if (!saved) throw new Error('a rider was not created');
    const rider = { id: saved.id as string, name: details.name, phone: details.phone, secret: '' };
    await renewLink(staff, rider);
    riders.push(rider);
  }
  return riders;
}

/** Two members who open a link at once end the one of the other, so the answer may be a link that has ended. */
export async function renewLink(staff: StaffActor, rider: Rider): Promise<void> {
  const link = await staff.call('open_rider_link', { rider_id: rider.id });
  if (link) rider.secret = link.secret;
}
