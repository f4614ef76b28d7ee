#include "plugins/jobs/inference/named_loras.hpp"

#include <array>
#include <set>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/chain/lora_link.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/published.hpp"

namespace kinora::core::inference {

// Reads adapters under the names of a component's parameters.
class NamedLoras::Reading {
 public:
  Reading(const Component& component, const Options& options) : component_(component) {
    for (auto& one : parameters_of(component, options)) {
      names_.insert(one.name);
      parameters_.emplace(one.name, std::move(one));
    }
    schemes_ = lora_schemes(component, names_);
  }

  Lora operator()(const std::filesystem::path& file, AdapterOf expert) const {
    const Adapter read = read_adapter(file, expert);
    const auto ours = our_names(read.parameters(), schemes_, names_);
    const auto home = [&](const std::string& theirs) -> const Parameter& {
      const auto at = parameters_.find(ours.at(theirs));
      if (at == parameters_.end())
        raise(KINORA_ERROR_INVALID, "{}: '{}' is not a parameter of {} under any of its names", file.string(),
              theirs, component_.spec->id);
      return at->second;
    };
    const auto require = [&](const Parameter& p, bool fits) {
      if (!fits)
        raise(KINORA_ERROR_INVALID, "{}: its change of '{}' has another shape than {} has here: {}",
              file.string(), p.name, component_.spec->id, c10::str(at::IntArrayRef(p.shape)));
    };
    Lora out;
    for (const auto& [module, pair] : read.modules) {
      const Parameter& p = home(module + ".weight");
      const at::Tensor a = pair.a.flatten(1), b = pair.b.flatten(1);
      require(p, !p.shape.empty() && b.size(0) == p.shape[0] && b.size(0) * a.size(1) == p.numel());
      if (p.shape.size() == 2)
        out.modules[module_of(p.name)] = {a, b, pair.scale};
      else
        add(out, p, Adapter::product(pair, at::kFloat).view(p.shape));
    }
    for (const auto& [name, difference] : read.differences) {
      const Parameter& p = home(name);
      require(p, difference.sizes() == at::IntArrayRef(p.shape));
      add(out, p, difference);
    }
    return out;
  }

 private:
  static void add(Lora& to, const Parameter& p, const at::Tensor& difference) {
    at::Tensor& all = to.differences[p.name];
    all = all.defined() ? all + difference : difference;
  }

  const Component& component_;
  std::set<std::string> names_;
  std::map<std::string, Parameter> parameters_;
  std::vector<LoraScheme> schemes_;
};

namespace {

// The leaves with no more than these parameters: a leaf may hold parts of many.
std::vector<Leaf> leaves_of(const Chain& chain, const NamedTensors& names) {
  std::vector<Leaf> out = chain.leaves();
  for (auto& leaf : out)
    std::erase_if(leaf.pieces, [&](const Piece& piece) {
      return !names.contains(chain.parameter(piece.param).name);
    });
  return out;
}

std::string name_in(const std::string& module, const std::string& lora) { return module + "." + lora; }

}  // namespace

NamedLoras::NamedLoras(const Component& component, const Options& options, const std::vector<LoraFile>& files,
                       AdapterOf expert, bool is_cut)
    : Link(kLoraLevel), is_cut_(is_cut) {
  skip_inherited<NamedLoras>();
  const Reading read(component, options);
  for (const auto& one : files) {
    const bool has_two = !one.file_2.empty();
    loras_[one.name] =
        read(has_two && expert == AdapterOf::low ? one.file_2 : one.file, has_two ? AdapterOf::any : expert);
  }
}

// A half that is cut like the weight keeps its role, as in LoraLink; any other is a table, which no precision rounds to
// few bits.
NamedLoras::Pair NamedLoras::halves_of(const kinora_param_spec& weight, const std::string& module,
                                       const std::string& lora, const Adapter::Pair& given) {
  const auto half = [&](const std::string& name, const at::Tensor& matrix, bool is_cut) {
    const std::array<int64_t, 2> shape{matrix.size(0), matrix.size(1)};
    auto s = weight;
    s.name = name.c_str();
    s.shape = shape.data();
    s.init = KINORA_INIT_CONSTANT;
    s.init_scale = 0;
    s.frozen = 1;
    if (!is_cut) s.role = KINORA_ROLE_TABLE, s.quantum = 1, s.n_parts = 0, s.parts = nullptr;
    return next.parameter(s);
  };
  const std::string name = name_in(module, lora);
  const auto a = half(lora_a(name), given.a, is_cut_ && weight.role == KINORA_ROLE_ROW),
             b = half(lora_b(name), given.b, is_cut_ && weight.role == KINORA_ROLE_COLUMN);
  return {a, b, given.scale};
}

kinora_param NamedLoras::parameter(const kinora_param_spec& given) {
  const auto weight = next.parameter(given);
  const std::string module = module_of(given.name);
  for (auto& [name, lora] : loras_)
    if (const auto at = lora.modules.find(module); !module.empty() && at != lora.modules.end())
      lora.pairs[weight] = halves_of(given, module, name, at->second);
  return weight;
}

void NamedLoras::load(Network& network, const Exchange& exchange) {
  network_ = &network;
  Chain& chain = network.chain();
  NamedTensors halves;
  for (auto& [name, lora] : loras_) {
    for (const auto& [module, pair] : lora.modules) {
      halves[lora_a(name_in(module, name))] = pair.a;
      halves[lora_b(name_in(module, name))] = pair.b;
    }
    lora.modules.clear();
    for (const auto& [parameter, difference] : lora.differences) own_[parameter] = difference;
  }
  LoadOptions how;
  how.may_miss = [](const std::string& name) { return !is_lora(name); };
  load_values(chain.parameters(), chain.leaves(), halves, how);
  if (own_.empty()) return;
  const NamedTensors all = assemble(chain.parameters(), leaves_of(chain, own_), exchange);
  for (auto& [name, value] : own_) value = all.at(name);
}

const NamedLoras::Pair* NamedLoras::pair_of(kinora_param weight) const {
  if (!used_) return nullptr;
  const auto at = used_->pairs.find(weight);
  return at == used_->pairs.end() ? nullptr : &at->second;
}

bool NamedLoras::use(const LoraUse& lora) {
  if (lora.name == use_.name && lora.scale == use_.scale) return false;
  const auto at = loras_.find(lora.name);
  if (!lora.name.empty() && at == loras_.end())
    raise(KINORA_ERROR_INVALID, "{} has no LoRA '{}'", network_->id(), lora.name);
  const at::NoGradGuard off;
  set_differences(false);
  used_ = lora.name.empty() ? nullptr : &at->second;
  use_ = lora;
  set_differences(true);
  return true;
}

void NamedLoras::set_differences(bool changed) {
  if (!used_ || used_->differences.empty()) return;
  NamedTensors values;
  for (const auto& [name, difference] : used_->differences) {
    const at::Tensor& own = own_.at(name);
    const auto exact = own.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    values[name] = changed ? own.to(exact).add(difference.to(exact), use_.scale) : own;
  }
  LoadOptions how;
  how.allow_missing = true;
  load_values(network_->chain().parameters(), network_->chain().leaves(), values, how);
}

at::Tensor NamedLoras::linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  const at::Tensor y = next.linear(x, w, b, seq);
  const Pair* pair = pair_of(w);
  if (!pair) return y;
  const at::Tensor h = next.linear(x, pair->a, 0, seq);
  return at::add(y, next.linear(h, pair->b, 0, seq), pair->scale * use_.scale);
}

}  // namespace kinora::core::inference
