// Weights as they are published: any file or folder of safetensors, under the component's own names or
// another layout's.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/plugin/registry.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "kinora/abi/layout.h"

namespace kinora::core {

// One naming scheme of a component; the default one is its own.
class Layout {
 public:
  Layout() = default;
  // parameters: all names of the component, over which a layout without a way to us is turned round.
  Layout(const kinora_layout* abi, const std::set<std::string>& parameters);
  std::string name() const { return abi_ ? abi_->name : "kinora"; }
  // "": dropped.
  std::string ours(const std::string& name) const;
  // Throws kinora::Error(KINORA_UNSUPPORTED) if the layout is only read.
  std::string theirs(const std::string& name) const;

 private:
  using Rename = int32_t (*)(const void*, const char*, const kinora_sink*);
  std::string called(Rename f, const std::string& name) const;
  const kinora_layout* abi_ = nullptr;
  std::map<std::string, std::string> turned_;  // ours by theirs, if the layout says no more
};

std::set<std::string> names_of(const Parameters& parameters);

// "kinora" first, then what the component lists.
std::vector<Layout> layouts_of(const Component& component, const std::set<std::string>& parameters);
// Throws kinora::Error(KINORA_INVALID) with what there is.
Layout layout_called(const Component& component, const std::string& name,
                     const std::set<std::string>& parameters);
// The layout under which `names` are the most parameters; the first of equals.
// fits: how many they are.
Layout layout_of(const Component& component, const std::vector<std::string>& names,
                 const std::set<std::string>& parameters, size_t* fits = nullptr);

// Open files whose tensors are called as the component calls them. Of a tensor that several of them have, the
// last one's counts.
class PublishedWeights {
 public:
  // The part of a pipeline's folder that fits the component is found, the layout of each file too; one line
  // says that only the variant fp16 is there. Of *.jit (archives.hpp) what no parameter is called after is
  // left out, with a warning. Throws kinora::Error.
  PublishedWeights(const std::vector<std::filesystem::path>& given, const Component& component,
                   const Parameters& parameters);
  std::vector<std::string> names() const;
  Find find() const;  // outlived by this

 private:
  using Sources = std::map<std::string, std::function<at::Tensor()>>;
  Sources sources_;
};

// Tensors of a file by the names that `ours` gives them, "" dropping one. Throws kinora::Error(KINORA_DATA)
// if two get one name.
std::map<std::string, const SafeTensor*> renamed(
    const Safetensors& file, const std::function<std::string(const std::string&)>& name_of);

}  // namespace kinora::core
