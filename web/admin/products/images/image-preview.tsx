// A saved or picked image in the form of a product.
import { useEffect, useState } from 'react';
import { Icon } from '../../../ui/icons.tsx';
import { ProductImage } from '../../../ui/product-image.tsx';
import { StaffIcon } from '../../layout/sidebar/staff-icons.tsx';

interface ImagePreviewProps {
  /** A URL, a picked file, or null for none. */
  image: string | File | null;
  alt: string;
  /** Displayed side, as in the `sizes` attribute. */
  side: string;
}

export function ImagePreview({ image, alt, side }: ImagePreviewProps) {
  const preview = usePreview(image instanceof File ? image : null);
  const [unshowable, setUnshowable] = useState<string | null>(null);
  return (
    <div className="@container grid size-full place-items-center overflow-hidden rounded-lg border border-line bg-paper-deep text-ink-faint">
      {preview && preview !== unshowable ? (
        <img
          src={preview}
          alt={alt}
          width={112}
          height={112}
          onError={() => setUnshowable(preview)}
          className="size-full object-cover"
        />
      ) : typeof image === 'string' ? (
        <ProductImage src={image} alt={alt} sizes={side} className="size-full" />
      ) : (
        <StaffIcon name="image" className="size-9" />
      )}
    </div>
  );
}

/** At the corner of a preview, whose box is `relative`. */
export function RemoveImage({ label, onClick }: { label: string; onClick(): void }) {
  return (
    <button
      type="button"
      aria-label={label}
      onClick={onClick}
      className="absolute -top-3 -right-3 grid size-9 place-items-center rounded-pill border border-line bg-card text-ink shadow-md hover:bg-paper-deep disabled:opacity-40"
    >
      <Icon name="close" className="size-4" />
    </button>
  );
}

/** An object URL of a local file, revoked when it is no longer shown. */
function usePreview(file: File | null): string | null {
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    if (!file) return;
    const objectUrl = URL.createObjectURL(file);
    setAddress(objectUrl);
    return () => {
      setAddress(null);
      URL.revokeObjectURL(objectUrl);
    };
  }, [file]);
  return address;
}
