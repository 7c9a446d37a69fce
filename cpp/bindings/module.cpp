/// The compiled module's table of contents: one line for each header in cpp/include/toolroll/.
#include <pybind11/pybind11.h>

namespace toolroll::bindings {

void bind_bitset(pybind11::module_& m);
void bind_unicode(pybind11::module_& m);
void bind_automaton(pybind11::module_& m);
void bind_marks(pybind11::module_& m);
void bind_cpu(pybind11::module_& m);
void bind_bm25(pybind11::module_& m);
void bind_spelling(pybind11::module_& m);
void bind_plain_text(pybind11::module_& m);
void bind_section_file(pybind11::module_& m);
void bind_token_table(pybind11::module_& m);
void bind_message_reader(pybind11::module_& m);
void bind_vector_index(pybind11::module_& m);
void bind_fusion(pybind11::module_& m);
void bind_selector(pybind11::module_& m);
void bind_row_changes(pybind11::module_& m);
void bind_search_each(pybind11::module_& m);
void bind_thompson(pybind11::module_& m);
void bind_containers(pybind11::module_& m);
void bind_cue_classifier(pybind11::module_& m);
void bind_tool_keys(pybind11::module_& m);
void bind_learned(pybind11::module_& m);
void bind_slate(pybind11::module_& m);
void bind_inclusion(pybind11::module_& m);

}  // namespace toolroll::bindings

PYBIND11_MODULE(_core, m, pybind11::mod_gil_not_used()) {
  using namespace toolroll::bindings;
  m.doc() = "toolroll's core: arrays in, arrays out. Indexes are immutable and safe to share.";
  bind_bitset(m);
  bind_unicode(m);
  bind_automaton(m);
  bind_marks(m);
  bind_cpu(m);
  bind_bm25(m);
  bind_spelling(m);
  bind_plain_text(m);
  bind_token_table(m);
  bind_message_reader(m);
  bind_vector_index(m);
  bind_tool_keys(m);
  bind_slate(m);  // Weights, which Learned.rank takes
  bind_learned(m);
  bind_inclusion(m);
  bind_fusion(m);
  bind_selector(m);
  bind_row_changes(m);  // adds to the classes above
  bind_search_each(m);
  bind_thompson(m);
  bind_section_file(m);
  bind_containers(m);
  bind_cue_classifier(m);
}
