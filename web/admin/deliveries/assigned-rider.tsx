/** A delivery's rider in one line. Isolates the name: digits after a right-to-left name would change their order. */
export function AssignedRider({ delivery }: AssignedRiderProps) {
  const { delivery_person, delivery_phone, delivery_vehicle } = delivery;
  return (
    <>
      <bdi>{delivery_person}</bdi>
      {[delivery_phone, delivery_vehicle].map((fact) => (fact ? `, ${fact}` : ''))}
    </>
  );
}

interface AssignedRiderProps {
  delivery: {
    delivery_person: string | null;
    delivery_phone: string | null;
    delivery_vehicle: string | null;
  };
}
