#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "arrays.hpp"
#include "text.hpp"
#include "toolroll/bm25.hpp"
#include "toolroll/intents.hpp"
#include "toolroll/section_file.hpp"
#include "toolroll/sorted_strings.hpp"
#include "toolroll/spelling.hpp"
#include "toolroll/vector_index.hpp"

namespace toolroll::bindings {
namespace {

constexpr std::string_view kArrayKind = "array";
constexpr std::uint32_t kArrayVersion = 1;

template <typename Index>
void add(SectionWriter& writer, const std::string& name, const Index& index) {
  const py::gil_scoped_release unlocked;
  ArchiveWriter archive = index.archive();
  writer.add(name, archive);
}

template <typename Index>
std::shared_ptr<Index> read(const SectionFile& file, const std::string& name) {
  const py::gil_scoped_release unlocked;
  return std::make_shared<Index>(Index::read(file.section(name, Index::kKind, Index::kVersion)));
}

bool is_plain(char kind, std::size_t size) {
  const bool is_integer = (kind == 'i' || kind == 'u') && size == 1;
  return is_integer ||
         ((kind == 'i' || kind == 'u' || kind == 'f') && (size == 2 || size == 4 || size == 8));
}

/// Numbers of any plain type. The array is copied first: another thread may write to it.
void add_array(SectionWriter& writer, const std::string& name, const py::array& array) {
  const char kind = array.dtype().kind();
  const auto size = static_cast<std::size_t>(array.itemsize());
  const char order = array.dtype().byteorder();
  if (array.ndim() != 1 || !is_plain(kind, size) || (order != '=' && order != '|')) {
    throw std::invalid_argument("array: must have one dimension and numbers of this machine");
  }
  const auto contiguous = py::array::ensure(array, py::array::c_style);
  const auto* const bytes = static_cast<const std::uint8_t*>(contiguous.data());
  const std::vector<std::uint8_t> numbers(bytes,
                                          bytes + static_cast<std::size_t>(contiguous.nbytes()));
  const py::gil_scoped_release unlocked;
  ArchiveWriter archive(kArrayKind, kArrayVersion);
  archive.value(kind);
  archive.value(static_cast<std::uint8_t>(size));
  archive.array(std::span<const std::uint8_t>(numbers));
  writer.add(name, archive);
}

py::array read_array(const SectionFile& file, const std::string& name) {
  char kind = 0;
  std::size_t size = 0;
  SharedArray<std::uint8_t> bytes;
  {
    const py::gil_scoped_release unlocked;
    ArchiveReader archive = file.section(name, kArrayKind, kArrayVersion);
    kind = archive.value<char>();
    size = archive.value<std::uint8_t>();
    bytes = archive.array<std::uint8_t>();
    archive.finish();
    if (!is_plain(kind, size) || bytes.size() % size != 0) {
      throw ArchiveError("damaged file: section '" + name + "' has numbers of an unknown type");
    }
  }
  const py::dtype type(std::string(1, kind) + std::to_string(size));
  auto* const held = new SharedArray<std::uint8_t>(std::move(bytes));
  const py::capsule owner(held,
                          [](void* at) { delete static_cast<SharedArray<std::uint8_t>*>(at); });
  py::array array(type, {static_cast<py::ssize_t>(held->size() / size)}, {}, held->data(), owner);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

py::str text_at(const SortedStrings& strings, std::int64_t place) {
  if (place < 0 || static_cast<std::size_t>(place) >= strings.size()) {
    throw py::index_error("place is out of range");
  }
  const std::string_view text = strings[static_cast<std::size_t>(place)];
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<py::ssize_t>(text.size()), "replace"));
}

}  // namespace

void bind_section_file(py::module_& m) {
  py::class_<SortedStrings, std::shared_ptr<SortedStrings>>(m, "SortedStrings")
      .def_static(
          "of",
          [](const py::sequence& ascending) {
            const Texts texts(ascending);
            const py::gil_scoped_release unlocked;
            return std::make_shared<SortedStrings>(SortedStrings::of(texts.views));
          },
          py::arg("ascending"))
      .def(
          "find",
          [](const SortedStrings& strings, const py::str& text) -> std::int32_t {
            return strings.find(Utf8(text).view()).value_or(-1);
          },
          py::arg("text"))
      .def("__getitem__", &text_at, py::arg("place"))
      .def(
          "texts",
          [](const SortedStrings& strings, const Column<std::int32_t>& places) {
            const auto wanted = view(places);
            py::tuple texts(wanted.size());
            for (std::size_t i = 0; i < wanted.size(); ++i) texts[i] = text_at(strings, wanted[i]);
            return texts;
          },
          py::arg("places").noconvert())
      .def("__len__", &SortedStrings::size);

  py::class_<SectionWriter>(m, "SectionWriter")
      .def(py::init([](const std::string& path, const std::string& kind, std::uint32_t version) {
             return std::make_unique<SectionWriter>(path, kind, version);
           }),
           py::arg("path"), py::arg("kind"), py::arg("version"))
      .def("add", &add<VectorIndex>, py::arg("name"), py::arg("content"))
      .def("add", &add<Bm25Index>, py::arg("name"), py::arg("content"))
      .def("add", &add<Intents>, py::arg("name"), py::arg("content"))
      .def("add", &add<Lexicon>, py::arg("name"), py::arg("content"))
      .def("add", &add<SortedStrings>, py::arg("name"), py::arg("content"))
      .def("add", &add_array, py::arg("name"), py::arg("content"))
      .def("finish", &SectionWriter::finish, py::call_guard<py::gil_scoped_release>());

  py::class_<SectionFile, std::shared_ptr<SectionFile>>(m, "SectionFile")
      .def_static(
          "open",
          [](const std::string& path, const std::string& kind, std::uint32_t version) {
            return std::make_shared<SectionFile>(SectionFile::open(path, kind, version));
          },
          py::arg("path"), py::arg("kind"), py::arg("version"),
          py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("names", &SectionFile::names)
      .def("__contains__", &SectionFile::contains, py::arg("name"))
      .def("vectors", &read<VectorIndex>, py::arg("name"))
      .def("postings", &read<Bm25Index>, py::arg("name"))
      .def("intents", &read<Intents>, py::arg("name"))
      .def("lexicon", &read<Lexicon>, py::arg("name"))
      .def("strings", &read<SortedStrings>, py::arg("name"))
      .def("array", &read_array, py::arg("name"));
}

}  // namespace toolroll::bindings
