"""ImageNet-1K as a folder of photographs, which stay on disk until they are needed."""

from pathlib import Path

from expograph.data.dataset import DataUnavailable, Folder


def imagenet(root: Path) -> Folder:
    """ImageNet-1K: 1,281,167 + 50,000 color photographs, 1000 classes.

    Read from root/imagenet/train/<class>/* and root/imagenet/val/<class>/*, the layout of every
    ImageNet recipe. It cannot be fetched: its licence is between you and image-net.org.

    Raises:
        DataUnavailable: if the folders are not there or do not hold the same classes.
    Ref: Russakovsky et al. 2015, arXiv:1409.0575.
    """
    from torchvision.datasets import ImageFolder

    folder = root / "imagenet"
    advice = (
        f"ImageNet can't be had: it is expected as {folder}/train/<class>/*.JPEG and "
        f"{folder}/val/<class>/*.JPEG (EXPOGRAPH_DATA sets another root than {root})"
    )
    try:
        train, test = (ImageFolder(folder / part) for part in ("train", "val"))
    except (OSError, RuntimeError) as error:
        raise DataUnavailable(f"{advice}: {' '.join(str(error).split())}") from None
    if train.classes != test.classes:
        odd = sorted(set(train.classes) ^ set(test.classes))
        raise DataUnavailable(f"{advice}: train and val differ in {len(odd)} classes, as {odd[0]}")
    return Folder(
        name="imagenet",
        train=train.samples,
        test=test.samples,
        num_classes=len(train.classes),
        mean=(0.485, 0.456, 0.406),  # of ImageNet's training pixels, as every recipe has them
        std=(0.229, 0.224, 0.225),
        source=f"files in {folder}",
    )
