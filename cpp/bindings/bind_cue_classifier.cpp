#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "text.hpp"
#include "toolroll/cue_classifier.hpp"

namespace toolroll::bindings {

void bind_cue_classifier(py::module_& m) {
  py::class_<CueClassifier>(m, "CueClassifier")
      .def(py::init([](const py::array& of_vector, const py::array& bias,
                       const std::vector<std::string>& cues, const py::array& of_cues, float unit,
                       const std::vector<std::string>& opening) {
             const auto weights = column_of<float>("of_vector", of_vector);
             const auto biases = column_of<float>("bias", bias);
             const auto counts = column_of<std::int32_t>("of_cues", of_cues);
             return CueClassifier({weights.begin(), weights.end()}, {biases.begin(), biases.end()},
                                  cues, {counts.begin(), counts.end()}, unit, opening);
           }),
           py::arg("of_vector"), py::arg("bias"), py::arg("cues"), py::arg("of_cues"),
           py::arg("unit"), py::arg("opening"))
      .def(
          "classify",
          [](const CueClassifier& classifier, const py::str& text, const py::array& vector,
             double least) {
            return classifier.classify(Utf8(text).view(), column_of<float>("vector", vector),
                                       least);
          },
          py::arg("text"), py::arg("vector"), py::arg("least"));
}

}  // namespace toolroll::bindings
