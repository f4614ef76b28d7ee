// Published weights: any file or folder of safetensors, under the component's own names or another layout's;
// and TorchScript archives, such as NVIDIA's encoder.jit. Pickles (torch.save) are refused.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/plugin/registry.hpp"
#include "core/torch/weights/lora_names.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "core/torch/weights/weights.hpp"
#include "kinora/abi/layout.h"

namespace kinora::core {

// One naming scheme of a component; the default one is its own.
class Layout {
 public:
  Layout() = default;
  // parameters: all names of the component. A layout that only converts from our names is inverted over them.
  Layout(const kinora_layout* abi, const std::set<std::string>& parameters);
  std::string name() const { return abi_ ? abi_->name : "kinora"; }
  bool is_written() const { return !abi_ || !abi_->ours || abi_->theirs; }
  // Returns "" for a dropped tensor.
  std::string ours(const std::string& name) const;
  // Throws kinora::Error(KINORA_ERROR_UNSUPPORTED) if the layout is only read.
  std::string theirs(const std::string& name) const;

 private:
  using Rename = int32_t (*)(const void*, const char*, const kinora_sink*);
  std::string called(Rename f, const std::string& name) const;
  const kinora_layout* abi_ = nullptr;
  std::map<std::string, std::string> turned_;  // ours by theirs, for an inverted layout
};

std::set<std::string> names_of(const Parameters& parameters);

// "kinora" first, then the component's layouts.
std::vector<Layout> layouts_of(const Component& component, const std::set<std::string>& parameters);
// Throws kinora::Error(KINORA_ERROR_INVALID) that lists the available layouts.
Layout layout_called(const Component& component, const std::string& name,
                     const std::set<std::string>& parameters);
// The layout under which the most of `names` are parameters; the first on a tie. fits: their number.
Layout layout_of(const Component& component, const std::vector<std::string>& names,
                 const std::set<std::string>& parameters, size_t* fits = nullptr);

// The ways in which an adapter's file may name the component's parameters: its own names first, then those of
// its layouts that can be written.
std::vector<LoraScheme> lora_schemes(const Component& component, const std::set<std::string>& parameters);

// Open files with tensors under the component's names. If several files have a tensor, the last one's is
// used.
class PublishedWeights {
 public:
  // Finds the part of a pipeline's folder that fits the component, and the layout of each file. From *.jit,
  // tensors that are not parameters are left out, with a warning. Throws kinora::Error.
  PublishedWeights(const std::vector<std::filesystem::path>& given, const Component& component,
                   const Parameters& parameters);
  // Logs what a reader of the weights may not expect: a line for each folder of which a variant such as fp16
  // is read, for each file with weights in four or eight bits, with their memory, and for each file that replaces
  // tensors of earlier ones.
  void log_notes() const;
  std::vector<std::string> names() const;
  Find find() const;  // must not outlive this

 private:
  using Sources = std::map<std::string, Found>;
  Sources sources_;
  std::vector<std::string> notes_;
};

// Tensors of a file under the names that name_of() gives them; "" drops one. Throws
// kinora::Error(KINORA_ERROR_DATA) if two get the same name.
std::map<std::string, const SafeTensor*> renamed(
    const Safetensors& file, const std::function<std::string(const std::string&)>& name_of);

// Whether the path's weights are TorchScript archives (archives_of in core/run/apply_published.hpp).
bool is_archive(const std::filesystem::path& given);
// Whether they are *.jit, which may have unused tensors: NVIDIA's tokenizers contain unused resamplers.
bool may_hold_more(const std::filesystem::path& given);

// Reads the parameters of a TorchScript file by name, on the CPU; buffers and program are ignored. Needs
// libtorch_cpu only. Throws kinora::Error for any other file.
NamedTensors read_archive(const std::filesystem::path& file);
// Reads all archives of the path.
NamedTensors read_archives(const std::filesystem::path& given);

}  // namespace kinora::core
