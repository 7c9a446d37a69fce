#include <pybind11/pybind11.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "toolroll/plain_text.hpp"

namespace toolroll::bindings {
namespace {

namespace py = pybind11;

/// The UTF-8 of a str; false, and no error, for a str with a lone surrogate.
bool utf8(PyObject* text, std::string_view& out) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError) == 0) throw py::error_already_set();
    PyErr_Clear();
    return false;
  }
  out = {bytes, static_cast<std::size_t>(size)};
  return true;
}

#if !defined(Py_GIL_DISABLED)  // without it, a dictionary can change while it is read

constexpr int kDeepest = 64;

void write_string(std::string_view text, std::string& out) {
  out += '"';
  std::size_t from = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, from, at - from);
    from = at + 1;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default: {
        char escaped[7];
        std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
        out += escaped;
      }
    }
  }
  out.append(text, from, text.size() - from);
  out += '"';
}

/// False, and anything written, for a value that Python's own encoder must see.
bool write(PyObject* value, std::string& out, int depth) {
  if (depth > kDeepest) return false;
  if (PyUnicode_CheckExact(value) != 0) {
    std::string_view text;
    if (!utf8(value, text)) return false;
    write_string(text, out);
    return true;
  }
  if (value == Py_None || value == Py_True || value == Py_False) {
    out += value == Py_None ? "null" : value == Py_True ? "true" : "false";
    return true;
  }
  if (PyLong_CheckExact(value) != 0) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0) return false;
    out += std::to_string(number);
    return true;
  }
  if (PyDict_CheckExact(value) != 0) {
    out += '{';
    PyObject* key = nullptr;
    PyObject* item = nullptr;
    Py_ssize_t at = 0;
    bool is_first = true;
    while (PyDict_Next(value, &at, &key, &item) != 0) {
      if (PyUnicode_CheckExact(key) == 0) return false;
      if (!is_first) out += ',';
      is_first = false;
      if (!write(key, out, depth + 1)) return false;
      out += ':';
      if (!write(item, out, depth + 1)) return false;
    }
    out += '}';
    return true;
  }
  const bool is_list = PyList_CheckExact(value) != 0;
  if (is_list || PyTuple_CheckExact(value) != 0) {
    out += '[';
    const Py_ssize_t size = is_list ? PyList_GET_SIZE(value) : PyTuple_GET_SIZE(value);
    for (Py_ssize_t i = 0; i < size; ++i) {
      if (i != 0) out += ',';
      PyObject* const item = is_list ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i);
      if (!write(item, out, depth + 1)) return false;
    }
    out += ']';
    return true;
  }
  return false;
}

bool is_json_leaf(PyObject* value) {
  return value == Py_None || PyBool_Check(value) != 0 || PyLong_CheckExact(value) != 0 ||
         PyUnicode_CheckExact(value) != 0 || PyList_CheckExact(value) != 0 ||
         PyFloat_CheckExact(value) != 0;
}

/// Appends the names and descriptions of a schema's parameters, each behind a space. False, and
/// anything appended, for a schema that Python must read.
bool add_words(PyObject* schema, Py_ssize_t most, int levels, std::string& out) {
  PyObject* const properties = PyDict_GetItemString(schema, "properties");
  if (properties == nullptr) return true;
  if (PyDict_CheckExact(properties) == 0) return false;
  PyObject* name = nullptr;
  PyObject* parameter = nullptr;
  Py_ssize_t at = 0;
  std::string_view text;
  for (Py_ssize_t i = 0; i < most && PyDict_Next(properties, &at, &name, &parameter) != 0; ++i) {
    if (PyUnicode_CheckExact(name) == 0 || !utf8(name, text)) return false;
    out += ' ';
    out += text;
    if (PyDict_CheckExact(parameter) == 0) {
      if (!is_json_leaf(parameter)) return false;  // may be a mapping
      continue;
    }
    PyObject* const description = PyDict_GetItemString(parameter, "description");
    if (description != nullptr && PyUnicode_Check(description) != 0) {
      if (!utf8(description, text)) return false;
      out += ' ';
      out += text;
    }
    if (levels > 1 && !add_words(parameter, most, levels - 1, out)) return false;
  }
  return true;
}

#endif

}  // namespace

void bind_plain_text(py::module_& m) {
  m.def(
      "compact_json",
      [](const py::handle value) -> py::object {
#if !defined(Py_GIL_DISABLED)
        thread_local std::string out;
        out.clear();
        if (write(value.ptr(), out, 0)) return py::str(out);
#else
        static_cast<void>(value);
#endif
        return py::none();
      },
      py::arg("value"));
  m.def(
      "parameter_words",
      [](const py::dict& schema, std::size_t most, int levels) -> py::object {
#if !defined(Py_GIL_DISABLED)
        thread_local std::string out;
        out.clear();
        if (PyDict_CheckExact(schema.ptr()) != 0 &&
            add_words(schema.ptr(), static_cast<Py_ssize_t>(most), levels, out)) {
          return out.empty() ? py::str() : py::str(out.data() + 1, out.size() - 1);
        }
#else
        static_cast<void>(schema);
        static_cast<void>(most);
        static_cast<void>(levels);
#endif
        return py::none();
      },
      py::arg("schema"), py::arg("most"), py::arg("levels"));
  m.def(
      "count_bytes",
      [](const py::str& text) -> py::object {
        std::string_view bytes;
        if (!utf8(text.ptr(), bytes)) return py::none();
        const ByteCounts counts = count_bytes(bytes);
        return py::make_tuple(counts.letters, counts.middle, counts.spaces, counts.others);
      },
      py::arg("text"));
  m.def(
      "is_plain",
      [](const py::str& text) {
        std::string_view bytes;
        return utf8(text.ptr(), bytes) && is_plain(bytes);
      },
      py::arg("text"));
}

}  // namespace toolroll::bindings
