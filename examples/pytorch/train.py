#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a ResNet on a folder of images, a process a GPU; torchrun starts it (job.yaml). Needs torch and torchvision.

    torchrun --nproc_per_node=2 train.py --data /data/train --out /out --epochs 2
"""
import argparse
import os

import torch
import torchvision
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import millrace  # examples/python: one file


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=4)
    return parser.parse_args()


def save(model, out, epoch):
    """Under another name first: a reader sees the old checkpoint or the new one, never half of one."""
    path = os.path.join(out, "checkpoint.pt")
    torch.save({"epoch": epoch, "model": model.state_dict()}, path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    args = parse()
    cuda = torch.cuda.is_available()
    torch.distributed.init_process_group("nccl" if cuda else "gloo")
    rank, device = torch.distributed.get_rank(), torch.device("cuda" if cuda else "cpu", int(os.environ["LOCAL_RANK"]) if cuda else 0)
    transform = torchvision.transforms.Compose([torchvision.transforms.RandomResizedCrop(224), torchvision.transforms.ToTensor()])
    data = torchvision.datasets.ImageFolder(args.data, transform)
    sampler = DistributedSampler(data, shuffle=True)  # the order follows from its seed and the epoch
    hinted = millrace.hint_sampler(sampler, [path for path, _ in data.samples], args.data)  # and the mount is told this order
    loader = DataLoader(data, args.batch, sampler=hinted, num_workers=args.workers, pin_memory=cuda, persistent_workers=args.workers > 0)
    model = DistributedDataParallel(torchvision.models.resnet18(num_classes=len(data.classes)).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
            save(model.module, args.out, epoch)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
