#include <pybind11/pybind11.h>

namespace toolroll::bindings {

namespace py = pybind11;

namespace {

PyObject* copy_containers(PyObject* value);

bool is_container(PyObject* value) { return PyDict_CheckExact(value) || PyList_CheckExact(value); }

/// A new reference to a copy of the dict; null with an exception.
PyObject* copy_dict(PyObject* value) {
  PyObject* copy = PyDict_Copy(value);
  if (copy == nullptr) return nullptr;
  PyObject* key = nullptr;
  PyObject* part = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(copy, &at, &key, &part) !=
         0) {  // values may change during the walk, keys may not
    if (!is_container(part)) continue;
    PyObject* below = copy_containers(part);
    const bool is_set = below != nullptr && PyDict_SetItem(copy, key, below) == 0;
    Py_XDECREF(below);
    if (!is_set) {
      Py_DECREF(copy);
      return nullptr;
    }
  }
  return copy;
}

/// A new reference to a copy of the list; null with an exception.
PyObject* copy_list(PyObject* value) {
  PyObject* copy = PyList_GetSlice(value, 0, PyList_GET_SIZE(value));
  if (copy == nullptr) return nullptr;
  for (Py_ssize_t at = 0; at < PyList_GET_SIZE(copy); ++at) {
    PyObject* part = PyList_GET_ITEM(copy, at);
    if (!is_container(part)) continue;
    PyObject* below = copy_containers(part);
    if (below == nullptr || PyList_SetItem(copy, at, below) != 0) {  // takes the reference
      Py_DECREF(copy);
      return nullptr;
    }
  }
  return copy;
}

PyObject* copy_containers(PyObject* value) {
  if (!is_container(value)) return Py_NewRef(value);
  if (Py_EnterRecursiveCall(" while copying dictionaries and lists") != 0) return nullptr;
  PyObject* copy = PyDict_CheckExact(value) ? copy_dict(value) : copy_list(value);
  Py_LeaveRecursiveCall();
  return copy;
}

/// The values of these objects in a dict by identity, as `[known[id(key)] for key in keys]`; a null
/// object without an exception if one has none.
py::object values_by_identity(const py::dict& known, const py::tuple& keys) {
  py::list values(keys.size());
  for (std::size_t at = 0; at < keys.size(); ++at) {
    PyObject* key = PyTuple_GET_ITEM(keys.ptr(), static_cast<py::ssize_t>(at));
    const auto identity = py::reinterpret_steal<py::object>(PyLong_FromVoidPtr(key));
    if (!identity) throw py::error_already_set();
    PyObject* value = PyDict_GetItemWithError(known.ptr(), identity.ptr());
    if (value == nullptr) {
      if (PyErr_Occurred() != nullptr) throw py::error_already_set();
      return {};
    }
    PyList_SET_ITEM(values.ptr(), static_cast<py::ssize_t>(at), Py_NewRef(value));
  }
  return values;
}

}  // namespace

/// Copies dicts and lists, at any depth; whatever else is in them is shared. A dict or list in two
/// places becomes two. About 65 ns for each, nearly all of it in Python's allocation; half of
/// `marshal.loads`. The value must not change meanwhile. Throws RecursionError for one within
/// itself.
void bind_containers(py::module_& m) {
  m.def(
      "copy_containers",
      [](const py::object& value) {
        PyObject* copy = copy_containers(value.ptr());
        if (copy == nullptr) throw py::error_already_set();
        return py::reinterpret_steal<py::object>(copy);
      },
      py::arg("value"));
  m.def(
      "values_by_identity",
      [](const py::dict& known, const py::tuple& keys) -> py::object {
        py::object values = values_by_identity(known, keys);
        return values ? values : py::none();
      },
      py::arg("known"), py::arg("keys"));
}

}  // namespace toolroll::bindings
