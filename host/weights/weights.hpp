// Published weights: the files behind a path, the options in their config.json, and their digest.
//
// A path names weights as safetensors, as TorchScript archives, or as the folder of a published pipeline:
// model_index.json and one folder per part.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"

namespace kinora::core {

// The part of a pipeline's folder that fits the component: transformer/ (or unet/) for a model, text_encoder/
// for a model of input_ids, image_encoder/ for one of pictures or videos, vae/ for a tokenizer. Any other
// path is returned unchanged. Throws kinora::Error: KINORA_ERROR_NOT_FOUND that lists the parts,
// KINORA_ERROR_UNSUPPORTED if the model has two experts.
std::filesystem::path published_part(const std::filesystem::path& given, const ComponentSpec& spec);

// The TorchScript archives behind a path of weights: a *.jit, *.pt or *.pth file itself; for a folder its
// encoder.jit and decoder.jit, else its only *.pt or *.pth if it has no safetensors. Empty: none.
std::vector<std::filesystem::path> archives_of(const std::filesystem::path& given);

// File name stem of the component's weights in a published folder: "model" for models of the transformers
// library (of input_ids, pictures or videos), else "diffusion_pytorch_model".
const char* published_stem(const ComponentSpec& spec);

// A pipeline whose model consists of two experts (Wan 2.2 A14B): one for high noise, the other below a
// fraction of the timesteps.
struct PublishedExperts {
  std::filesystem::path high, low;
  double boundary;  // boundary_ratio of model_index.json; 0 if absent
};
// nullopt if the path is not the folder of such a pipeline.
std::optional<PublishedExperts> published_experts(const std::filesystem::path& given,
                                                  const ComponentSpec& spec);

// The files that loading these paths reads, in order: shards of an index, the part of a pipeline's folder
// that fits the component, TorchScript archives themselves. Throws Error.
std::vector<std::filesystem::path> weights_files(const std::vector<std::filesystem::path>& given,
                                                 const ComponentSpec& component);

// The config.json of the first folder among `weights` that has one. For a pipeline's folder, that of the part
// that fits the component; for two experts, that of the first. Empty: none. Throws kinora::Error
// (published_part).
std::filesystem::path config_of(const std::vector<std::filesystem::path>& weights, const ComponentSpec& spec);

// The options in the JSON object in `file` (for a folder: in its config.json; for a pipeline's folder: in
// that of the part that fits the component). A member maps to the option of its name, else by
// OptionSpec::config; types and ranges are checked. null means 0, "", false or [] if the option accepts that.
// Unknown members are ignored with one log line that names them (unless quiet), because published files have
// members that one implementation does not need; those that every published file has and that change no output
// only at level debug. Names that begin with an underscore (diffusers' _class_name)
// are ignored silently. Throws kinora::Error with every problem, each beginning with the file.
json read_config(const std::filesystem::path& file, const ComponentSpec& spec, bool quiet = false);

// `given`, completed by the configuration (an empty path: by nothing). One log line lists the values that
// differ. A published `size` in `given` replaces the whole configuration. Throws kinora::Error.
json with_config(const ComponentSpec& spec, json given, const std::filesystem::path& config);

// The same with the configuration of these weights (config_of). If they have none, or an empty one, and
// `given` has no size and does not fit their tensors: the published size that fits. Throws kinora::Error, also
// for weights of another network's class (of_another_class in published_classes.hpp).
json with_weights(Registry& registry, const ComponentSpec& spec, json given,
                  const std::vector<std::filesystem::path>& weights);

// Throws Error(KINORA_ERROR_DATA) if the list of a checkpoint or a finished job (listing_of in contents.hpp)
// has the file with another size or digest. kept: see weights_digest(); empty: the file is read each time.
void require_as_listed(const std::filesystem::path& file, const std::filesystem::path& kept = {});
// The same for each file that loading these paths reads (weights_files).
void require_as_listed(const std::vector<std::filesystem::path>& given, const ComponentSpec& component,
                       const std::filesystem::path& kept = {});

// Identifies weights by a text that others can recompute: "sha256:" followed by the digest: for one file, the
// one that sha256sum and Hugging Face show; for several, the digest of sha256sum's lines "DIGEST  NAME", in
// order. `kept` is a JSON file that keeps digests (Contents in contents.hpp), so that no file is
// read twice. Throws Error.
std::string weights_digest(const std::vector<std::filesystem::path>& files,
                           const std::filesystem::path& kept);

}  // namespace kinora::core
