# SPDX-License-Identifier: Apache-2.0
"""examples/python without a mount: what goes into a list, what samplers pass on, and what is said where there is no mount."""
import errno
import os
import sys
import tempfile
import unittest
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/python"))
import millrace  # noqa: E402


class Header(unittest.TestCase):
    def test_numbers_are_those_of_the_header(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib/base/ioctl.h"), encoding="utf-8") as header:
            text = header.read()
        for line in (f"#define HINT_TEXT {millrace.HINT_TEXT}\n", "_IOW('m', 0x48, struct hint_msg)", "_IOWR('m', 0x49, struct pin_msg)",
                     f"(UINT64_C({millrace.PIN_PIECE >> 20}) << 20)"):
            self.assertIn(line, text)
        self.assertEqual(millrace.PIN.size, 320)


class Lines(unittest.TestCase):
    def lines(self, directory, paths):
        return b"".join(millrace._lines(directory, paths))

    def test_absolute_paths_become_relative(self):
        self.assertEqual(self.lines("/d/train", ["/d/train/a/1", "/d/train/b", "/d/other/c"]), b"a/1\nb\n../other/c\n")

    def test_relative_paths_stay(self):
        self.assertEqual(self.lines("/d", ["a/1", "./b"]), b"a/1\n./b\n")

    def test_bytes_and_names_that_are_no_utf_8(self):
        self.assertEqual(self.lines(b"/d", [b"/d/\xff", os.fsdecode(b"\xfe"), "\u00e4"]), b"\xff\n\xfe\n\xc3\xa4\n")

    def test_a_path_of_two_lines_is_left_out(self):
        self.assertEqual(self.lines("/d", ["a", "b\nc", "d"]), b"a\nd\n")

    def test_a_directory_that_is_relative(self):
        self.assertEqual(self.lines(".", [os.path.abspath("x")]), b"x\n")


class Sampler(unittest.TestCase):
    paths = [f"/data/train/{i}" for i in range(100)]

    def told(self, sampler, **more):
        """What the loader gets, and what the mount is told before it gets the sample at each place."""
        lists, told, got, before = [], [], [], []
        warn, millrace._hint_or_warn = millrace._hint_or_warn, lambda d, p, n: (lists.append((d, n)), told.extend(p))
        try:
            wrapped = millrace.hint_sampler(sampler, self.paths, **more)
            for index in wrapped:
                got.append(index)
                before.append(len(told))
        finally:
            millrace._hint_or_warn = warn
        return wrapped, lists, told, got, before

    def test_the_order_is_the_samplers(self):
        order = [i * 37 % 100 for i in range(100)]
        wrapped, lists, told, got, _ = self.told(order)
        self.assertEqual(got, order)
        self.assertEqual(told, [self.paths[i] for i in order])
        self.assertEqual(lists, [("/data/train", lists[0][1])])
        self.assertEqual(len(wrapped), 100)

    def test_it_is_told_ahead_in_chunks_of_one_list(self):
        _, lists, told, got, before = self.told(range(100), chunk=10, directory="/data")
        self.assertEqual(got, list(range(100)))
        self.assertEqual(told, self.paths)
        self.assertEqual(set(lists), {lists[0]})
        for place, ahead in enumerate(before):
            self.assertGreaterEqual(ahead, min(100, place + 10))
            self.assertLessEqual(ahead, place + 20)

    def test_batches(self):
        _, _, told, got, _ = self.told([[3, 1], [2]])
        self.assertEqual(got, [[3, 1], [2]])
        self.assertEqual(told, [self.paths[3], self.paths[1], self.paths[2]])

    def test_an_empty_one(self):
        self.assertEqual(self.told([])[2:], ([], [], []))

    def test_what_else_the_sampler_has(self):
        class Distributed(list):
            epoch = 0

            def set_epoch(self, epoch):
                self.epoch = epoch

        inner = Distributed([1])
        millrace.hint_sampler(inner, self.paths).set_epoch(7)
        self.assertEqual(inner.epoch, 7)
        with self.assertRaises(AttributeError):
            millrace.hint_sampler(inner, self.paths).absent


class NoMount(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.file = os.path.join(self.dir.name, "f")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("x")

    def test_it_is_said_with_the_path(self):
        for call in (millrace.why, millrace.status, millrace.load, millrace.pin, millrace.unpin, millrace.free):
            with self.assertRaisesRegex(OSError, "not on a mount of Millrace.*/f") as caught:
                call(self.file)
            self.assertEqual(caught.exception.errno, errno.ENOTTY)
        with self.assertRaisesRegex(OSError, "not on a mount of Millrace"):
            millrace.hint(self.dir.name, ["f"])

    def test_a_path_that_is_not_there(self):
        for call in (millrace.why, millrace.load, millrace.pin):
            with self.assertRaises(FileNotFoundError):
                call(os.path.join(self.dir.name, "absent"))

    def test_a_job_goes_on_without(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(list(millrace.hint_sampler([0], [self.file])), [0])
        self.assertIn("not on a mount of Millrace", str(caught[0].message))


if __name__ == "__main__":
    unittest.main()
