#include "core/torch/weights/published.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/base/suggest.hpp"
#include "core/io/byte_source.hpp"
#include "core/plugin/host.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "host/weights/safetensors_header.hpp"
#include "host/weights/scaled_weight.hpp"
#include "host/weights/weights.hpp"
#include "kinora/abi/model.h"
#include "kinora/abi/tokenizer.h"

namespace kinora::core {
namespace {

// The table may belong to a plugin built before layouts existed.
template <class Table>
const kinora_layout* (*layout_slot(const Component& c))(uint64_t) {
  const auto& table = c.table<Table>();
  return table.struct_size >= offsetof(Table, layout) + sizeof table.layout ? table.layout : nullptr;
}

}  // namespace

std::string Layout::called(Rename f, const std::string& name) const {
  std::string out;
  const kinora_sink sink{&out, [](void* to, const void* data, uint64_t size) {
                           static_cast<std::string*>(to)->append(static_cast<const char*>(data), size);
                         }};
  check(f(abi_->self, name.c_str(), &sink));
  return out;
}

Layout::Layout(const kinora_layout* abi, const std::set<std::string>& parameters) : abi_(abi) {
  if (!abi->ours && abi->theirs)
    for (const auto& name : parameters) turned_[called(abi->theirs, name)] = name;
}

std::string Layout::ours(const std::string& name) const {
  if (abi_ && abi_->ours) return called(abi_->ours, name);
  const auto it = turned_.find(name);
  return it == turned_.end() ? name : it->second;
}

std::string Layout::theirs(const std::string& name) const {
  if (!abi_ || (!abi_->ours && !abi_->theirs)) return name;
  if (!abi_->theirs)
    raise(KINORA_ERROR_UNSUPPORTED, "layout '{}' is read, not written: its plugin has no inverse for names",
          abi_->name);
  return called(abi_->theirs, name);
}

std::set<std::string> names_of(const Parameters& parameters) {
  std::set<std::string> out;
  for (const auto& p : parameters) out.insert(p.name);
  return out;
}

std::vector<Layout> layouts_of(const Component& c, const std::set<std::string>& parameters) {
  std::vector<Layout> out(1);
  auto* slot = c.spec->kind == "model"       ? layout_slot<kinora_model>(c)
               : c.spec->kind == "tokenizer" ? layout_slot<kinora_tokenizer>(c)
                                             : nullptr;
  for (uint64_t i = 0; slot; ++i) {
    const auto* layout = slot(i);
    if (!layout) break;
    if (layout->reserved != 0)
      raise(KINORA_ERROR_UNSUPPORTED,
            "{}: reserved of its layout '{}' is {}, which this Kinora does not know; it needs a newer one",
            c.spec->id, layout->name, layout->reserved);
    out.emplace_back(layout, parameters);
  }
  return out;
}

Layout layout_called(const Component& c, const std::string& name, const std::set<std::string>& parameters) {
  std::vector<std::string> known;
  for (const auto& l : layouts_of(c, parameters)) {
    if (l.name() == name) return l;
    known.push_back(l.name());
  }
  raise(KINORA_ERROR_INVALID, "{} has no layout '{}'{}", c.spec->id, name,
        did_you_mean_or_list(name, known, "layouts"));
}

Layout layout_of(const Component& c, const std::vector<std::string>& names,
                 const std::set<std::string>& expected, size_t* fits) {
  Layout best;
  size_t most = 0;
  for (const auto& layout : layouts_of(c, expected)) {
    std::set<std::string> reached;  // a scheme that maps many names to one fits one
    for (const auto& name : names)
      if (const auto ours = layout.ours(name); expected.count(ours)) reached.insert(ours);
    if (reached.size() > most) most = reached.size(), best = layout;
  }
  if (fits) *fits = most;
  return best;
}

std::vector<LoraScheme> lora_schemes(const Component& c, const std::set<std::string>& parameters) {
  std::vector<LoraScheme> out;
  for (auto& layout : layouts_of(c, parameters))
    if (layout.is_written())
      out.emplace_back([layout](const std::string& ours) { return layout.theirs(ours); });
  return out;
}

std::map<std::string, const SafeTensor*> renamed(
    const Safetensors& file, const std::function<std::string(const std::string&)>& name_of) {
  std::map<std::string, const SafeTensor*> out;
  for (const auto& t : file.tensors()) {
    const std::string name = name_of(t.name);
    if (name.empty()) continue;
    if (const auto [it, fresh] = out.emplace(name, &t); !fresh)
      raise(KINORA_ERROR_DATA, "tensors '{}' and '{}' would both be called '{}'", it->second->name, t.name,
            name);
  }
  return out;
}

namespace {

using Sources = std::map<std::string, Found>;

Sources archives_in(const std::filesystem::path& given, const Component& c, const Parameters& parameters) {
  const auto ours = names_of(parameters);
  const NamedTensors all = read_archives(given);
  std::vector<std::string> names, left;
  for (const auto& [name, t] : all) names.push_back(name);
  const Layout layout = layout_of(c, names, ours);
  Sources out;
  for (const auto& [name, t] : all) {
    const std::string to = layout.ours(name);
    if (to.empty()) continue;
    if (!ours.count(to) && may_hold_more(given))
      left.push_back(name);
    else if (!out.emplace(to, t).second)
      raise(KINORA_ERROR_DATA, "{}: two tensors would be called '{}'", given.string(), to);
  }
  if (!left.empty())
    log_warn("{}: {} of {} tensors are not parameters of {} and are left out, the first of them '{}'",
             given.string(), left.size(), all.size(), c.spec->id, left[0]);
  return out;
}

// The variant of the file that a folder's weights were read from: "bf16" of model.bf16.safetensors and of
// model.bf16-00001-of-00002.safetensors. "" for a file without one.
std::string variant_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  const auto first = name.find('.'), last = name.rfind('.');
  const std::string stem = name.substr(0, first);
  if (first == last || (stem != "model" && stem != "diffusion_pytorch_model")) return "";
  const std::string between = name.substr(first + 1, last - first - 1);
  return between.substr(0, between.find('-'));
}

// Says what is decoded on reading and what that costs; nothing if the file has no such tensors.
void note_few_bits(const std::filesystem::path& given, const Safetensors& file,
                   std::vector<std::string>& notes) {
  const auto add = [&](const auto& is_one, const char* what) {
    uint64_t count = 0, stored = 0, decoded = 0;
    for (const auto& t : file.tensors()) {
      if (!is_one(t)) continue;
      ++count, stored += stored_bytes(t), decoded += byte_size(t.shape, SafeDtype::f32).value_or(0);
    }
    if (count > 0)
      notes.push_back(
          fmt::format("{}: {} {}, {} in the file, are decoded to the parameters' dtype: {} as float32",
                      given.string(), count, what, format_size(stored), format_size(decoded)));
    return count > 0;
  };
  add([](const SafeTensor& t) { return t.packed != nullptr; }, "matrices in four bits");
  if (!add([](const SafeTensor& t) { return t.scaled != nullptr; }, "weights in eight bits with scales"))
    return;
  const auto is_bare = [](const SafeTensor& t) {
    return t.dtype == SafeDtype::f8_e4m3 || t.dtype == SafeDtype::f8_e5m2;
  };
  const auto& all = file.tensors();
  const auto first = std::find_if(all.begin(), all.end(), is_bare);
  if (first != all.end())
    notes.push_back(fmt::format(
        "{}: {} others in eight bits have no scale and are taken as they are, the first of them '{}'",
        given.string(), std::count_if(all.begin(), all.end(), is_bare), first->name));
}

// The tensors point into the file, which the returned sources share. notes: receives what a reader may not
// expect of a folder's variant, and of weights in few bits.
Sources tensors_in(const std::filesystem::path& given, const Component& c, const Parameters& parameters,
                   std::vector<std::string>& notes) {
  const auto file =
      std::make_shared<const Safetensors>(or_throw(Safetensors::open(published_part(given, *c.spec))));
  const std::string variant = std::filesystem::is_directory(given) ? variant_of(file->files()[0]) : "";
  if (!variant.empty())
    notes.push_back(given.string() + ": variant " + variant +
                    " of the weights is read, since the folder has none without a variant");
  note_few_bits(given, *file, notes);
  const Layout layout = layout_of(c, file->names(), names_of(parameters));
  Sources out;
  for (const auto& [name, t] : renamed(*file, [&](const std::string& n) { return layout.ours(n); }))
    out.emplace(name, Found(t->shape, torch_dtype(t->dtype), [file, t = t] { return as_tensor(*file, *t); }));
  return out;
}

}  // namespace

PublishedWeights::PublishedWeights(const std::vector<std::filesystem::path>& given, const Component& c,
                                   const Parameters& parameters) {
  for (const auto& path : given) {
    Sources later =
        is_archive(path) ? archives_in(path, c, parameters) : tensors_in(path, c, parameters, notes_);
    const size_t size = later.size();
    later.merge(sources_);  // entries of both remain in sources_
    if (!sources_.empty())
      notes_.push_back(fmt::format("{}: {} of its {} tensors take the place of earlier files'", path.string(),
                                   sources_.size(), size));
    sources_ = std::move(later);
  }
}

void PublishedWeights::log_notes() const {
  for (const auto& note : notes_) log_info("{}", note);
}

std::vector<std::string> PublishedWeights::names() const {
  std::vector<std::string> out;
  for (const auto& [name, source] : sources_) out.push_back(name);
  return out;
}

Find PublishedWeights::find() const {
  return [this](const std::string& name) {
    const auto it = sources_.find(name);
    return it == sources_.end() ? Found() : it->second;
  };
}

namespace {

NamedTensors parameters_of_script(const std::string& file) {
  NamedTensors out;
  const auto module = torch::jit::load(file, at::kCPU);
  for (const auto& p : module.named_parameters(true)) out.emplace(p.name, p.value.detach());
  return out;
}

NamedTensors script_in(const std::string& file) {
  if (!caffe2::serialize::PyTorchStreamReader(file).hasRecord("constants.pkl"))
    raise(KINORA_ERROR_UNSUPPORTED,
          "{0} is a pickle of torch.save, which is never read; `kinora inspect {0}` prints a command that "
          "converts "
          "it once",
          file);
  return parameters_of_script(file);
}

}  // namespace

bool is_archive(const std::filesystem::path& given) { return !archives_of(given).empty(); }

bool may_hold_more(const std::filesystem::path& given) {
  const auto files = archives_of(given);
  return !files.empty() && files[0].extension() == ".jit";
}

NamedTensors read_archive(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) throw Error(KINORA_ERROR_NOT_FOUND, file.string() + " does not exist");
  or_throw(check_regular_file(file.string()));
  NamedTensors out;
  try {
    out = script_in(file.string());
  } catch (const c10::Error& e) {
    throw Error(KINORA_ERROR_INVALID, file.string() + " is not an archive that libtorch reads (" +
                                          text_of(e).substr(0, 120) +
                                          "); give a safetensors file or TorchScript");
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(KINORA_ERROR_INVALID, file.string() + " is not an archive of weights: " + e.what());
  }
  if (out.empty())
    throw Error(KINORA_ERROR_INVALID,
                file.string() + " holds no parameters; a frozen archive keeps none by name");
  return out;
}

NamedTensors read_archives(const std::filesystem::path& given) {
  NamedTensors all;
  for (const auto& file : archives_of(given)) all.merge(read_archive(file));
  return all;
}

}  // namespace kinora::core
