#include "core/torch/network/network.hpp"

#include "core/base/log.hpp"
#include "core/torch/network/fitting.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/network/tokenizer.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/lora.hpp"
#include "core/torch/weights/lora_names.hpp"
#include "core/torch/weights/published.hpp"
#include "host/weights/published_classes.hpp"
#include "host/weights/weights.hpp"

namespace kinora::core {
namespace {

// Our names of an adapter's parameters (our_names), "" for one that is not known.
std::map<std::string, std::string> names_of_adapter(const Component& component, const Parameters& parameters,
                                                    const std::vector<std::string>& theirs) {
  auto names = names_of(parameters);
  std::erase_if(names, is_lora);
  return our_names(theirs, lora_schemes(component, names), names);
}

// The modules of an adapter's file get the component's own names, of which it asks a network without an adapter.
ChainOptions with_own_names(ChainOptions chain, const Component& component, const Options& options) {
  if (!chain.lora || !chain.lora->of_file) return chain;
  std::vector<std::string> weights;
  for (const auto& module : chain.lora->targets) weights.push_back(module + ".weight");
  const auto ours = names_of_adapter(component, parameters_of(component, options), weights);
  for (auto& module : chain.lora->targets)
    if (const auto name = module_of(ours.at(module + ".weight")); !name.empty()) module = name;
  chain.lora->of_file = false;
  return chain;
}

}  // namespace

Network::Network(const Component& component, const Options& options, const ChainOptions& chain,
                 std::vector<const kinora_link*> links,
                 const std::function<Instance(const kinora_context*)>& create)
    : component_(component),
      options_(options.values()),
      chain_(with_own_names(chain, component, options), std::move(links)),
      self_(create(chain_.head())) {
  chain_.ready();
}

int64_t Network::numel() const {
  int64_t n = 0;
  for (const auto& p : chain_.parameters()) n += p.numel();
  return n;
}

void Network::load_or_compare(const std::vector<std::filesystem::path>& weights, bool compare_only) {
  try {
    load_or_compare_all(weights, compare_only);
  } catch (const Error& e) {
    const std::string adapter = adapter_among(weights, id());
    if (adapter.empty()) throw;
    throw Error(e.code(), adapter);
  }
}

void Network::load_or_compare_all(const std::vector<std::filesystem::path>& weights, bool compare_only) {
  LoadOptions how{.compare_only = compare_only};
  const PublishedWeights file(weights, component_, chain_.parameters());
  if (!compare_only) file.log_notes();
  how.may_miss = is_lora;  // which a link has declared
  how.may_ignore = [this](const std::string& name) { return may_be_ignored(*component_.spec, name); };
  std::string all;
  for (const auto& path : weights) all += (all.empty() ? "" : ", ") + path.string();
  try {
    const auto left =
        load_values(chain_.parameters(), chain_.leaves(), file.names(), file.find(), how).unexpected;
    if (!left.empty() && !compare_only)
      log_line(KINORA_LOG_DEBUG, fmt::format("{}: {} of {} tensors have no use in {}, the first of them '{}'",
                                             all, left.size(), file.names().size(), id(), left[0]));
  } catch (const Error& e) {
    const std::string cause = why_misfit(component_, options_, weights);
    throw Error(e.code(), all + (weights.size() == 1 ? " does" : " together do") + " not fit " + id() + ": " +
                              (cause.empty() ? "" : cause + "; ") + e.what());
  }
}

void Network::load_adapter(const std::filesystem::path& path) {
  const bool reads_text = std::string_view(published_stem(*component_.spec)) == "model";
  const Adapter adapter = read_adapter(path, reads_text ? AdapterOf::text_encoder : AdapterOf::any);
  const auto ours = names_of_adapter(component_, chain_.parameters(), adapter.parameters());
  NamedTensors tensors;
  for (const auto& [module, pair] : adapter.modules) {
    const std::string known = module_of(ours.at(module + ".weight")), name = known.empty() ? module : known;
    tensors[lora_a(name)] = pair.a;
    tensors[lora_b(name)] = pair.b;
  }
  LoadOptions how;
  how.may_miss = [](const std::string& name) { return !is_lora(name); };
  try {
    load_values(chain_.parameters(), chain_.leaves(), tensors, how);
  } catch (const Error& e) {
    throw Error(e.code(), path.string() + " does not fit " + id() + ": " + e.what());
  }
}

std::map<std::string, Adapter::Pair> Network::adapter(const Exchange& exchange) const {
  std::vector<at::Tensor> values;  // undefined for frozen leaves, which are not gathered
  for (const auto& leaf : chain_.leaves()) values.push_back(leaf.frozen ? at::Tensor() : leaf.tensor);
  auto out = adapter_pairs(assemble(chain_.parameters(), chain_.leaves(), values, exchange));
  for (auto& [module, pair] : out) pair.scale = chain_.lora()->scale();
  return out;
}

std::unique_ptr<Network> open_network(const Component& component, const Options& options,
                                      const ChainOptions& chain, std::vector<const kinora_link*> links) {
  if (component.spec->kind == "model")
    return std::make_unique<Model>(component, options, chain, std::move(links));
  return std::make_unique<Tokenizer>(component, options, chain, std::move(links));
}

Parameters parameters_of(const Component& component, const Options& options) {
  return open_network(component, options, {.device = at::kMeta})->chain().parameters();
}

}  // namespace kinora::core
