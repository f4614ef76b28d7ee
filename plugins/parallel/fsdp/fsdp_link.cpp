#include "plugins/parallel/fsdp/fsdp_link.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kinora/autograd.hpp"

namespace kinora::fsdp {

using at::Tensor;

namespace {

// The values of a unit, while a block runs.
class Reading {
 public:
  explicit Reading(std::vector<Tensor>& values) : values_(values) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() { values_.clear(); }

 private:
  std::vector<Tensor>& values_;
};

}  // namespace

FsdpLink::FsdpLink(const Options& options, const Mesh<Tensor>& mesh)
    : Link(KINORA_LEVEL_FSDP),
      options_(options),
      format_(wire::format_of(options.gather_dtype)),
      group_(mesh.group("fsdp")),
      split_copies_(mesh.group("dp+cp")),
      whole_copies_(mesh.group("dp+cp+tp")),
      split_copies_outside_(mesh.group("dp+cp+pp")),
      whole_copies_outside_(mesh.group("dp+cp+tp+pp")) {
  skip_inherited<FsdpLink>();
}

kinora_param FsdpLink::parameter(const kinora_param_spec& s) {
  Declared p{next.parameter(s), s.block, {s.shape, s.shape + s.ndim}, s.shards > 1, s.frozen != 0};
  if (p.split) p.shape[s.role == KINORA_ROLE_ROW ? 1 : 0] /= s.shards;
  declared_.push_back(std::move(p));
  return declared_.back().id;
}

void FsdpLink::ready() {
  std::map<int64_t, Both<std::vector<Declared>>> by_block;
  for (const auto& p : declared_)
    if (holds_block(p.block)) (p.frozen ? by_block[p.block].frozen : by_block[p.block].trained).push_back(p);
  for (auto& [block, parameters] : by_block) {
    Unit& unit = units_.try_emplace(block, FlatGradient(group_, options_.stage > 1)).first->second;
    size_t index = 0;
    for (auto [flat, list] :
         {std::pair{&unit.flat.trained, &parameters.trained}, {&unit.flat.frozen, &parameters.frozen}}) {
      flat->take(std::move(*list), group_, next);
      for (const auto& p : flat->parameters()) places_[p.id] = {block, index++};
      const auto pieces = flat->pieces();
      pieces_.insert(pieces_.end(), pieces.begin(), pieces.end());
    }
  }
}

bool FsdpLink::piece(int64_t i, Piece& out) {
  if (i >= static_cast<int64_t>(pieces_.size())) return false;
  out = pieces_[static_cast<size_t>(i)];
  return true;
}

// Between passes without gradient and others the leaves may have been written to (for example by averages
// that are swapped with the weights).
void FsdpLink::begin(const kinora_pass& pass) {
  tell();
  const bool no_grad = pass.no_grad != 0;
  if (no_grad || no_grad_) ++step_;
  no_grad_ = no_grad;
  drop_gathers();
  if (const auto outside = units_.find(-1); outside != units_.end()) outside->second.values.clear();
}

// Drops gathers that were not used: their leaves may change before the next use.
void FsdpLink::drop_gathers() {
  for (auto& [block, unit] : units_) unit.coming = {};
}

at::ScalarType FsdpLink::reduced_as(const Flat& flat) const {
  const bool wide = flat.shard().scalar_type() == at::kDouble && options_.reduce_dtype == "auto";
  return wide ? at::kDouble : at::kFloat;
}

void FsdpLink::tell() {
  const std::string told = meter_.told();
  if (told.empty() || told_) return;
  told_ = true;
  if (group_.rank() == 0)
    log(Log::info, "fsdp: parameters gathered in " + options_.gather_dtype + ": " + told);
}

void FsdpLink::start_gather(int64_t block) {
  const auto found = units_.find(block);
  if (found == units_.end() || found->second.prefetched()) return;
  Unit& unit = found->second;
  if (keeps(block) && unit.step == step_) return;
  const auto& [trained, frozen] = unit.flat;
  if (!trained.empty()) unit.coming.trained = trained.start_gather(format_);
  if (!frozen.empty()) unit.coming.frozen = frozen.start_gather(format_);
}

FsdpLink::Both<Tensor> FsdpLink::gathered(int64_t block, int64_t direction) {
  start_gather(block);
  Unit& unit = units_.at(block);
  wire::Meter* meter = told_ ? nullptr : &meter_;
  Both<Tensor> out;
  if (unit.coming.trained.pending())
    out.trained = unit.flat.trained.received(unit.coming.trained.finish(), format_, meter);
  if (unit.coming.frozen.pending())
    out.frozen = unit.flat.frozen.received(unit.coming.frozen.finish(), format_, meter);
  for (int64_t ahead = 1; block >= 0 && ahead <= options_.prefetch; ++ahead)
    if (block + ahead * direction >= 0) start_gather(block + ahead * direction);
  return out;
}

std::shared_ptr<FsdpLink::Both<Whole>> FsdpLink::whole(int64_t block, int64_t direction) {
  Unit& unit = units_.at(block);
  if (keeps(block) && unit.step == step_) return unit.kept;
  unit.kept = nullptr;
  auto numbers = gathered(block, direction);
  auto out = std::make_shared<Both<Whole>>(
      Both<Whole>{Whole(std::move(numbers.trained)), Whole(std::move(numbers.frozen))});
  if (keeps(block)) {
    unit.kept = out;
    unit.step = step_;
  }
  return out;
}

FsdpLink::Tensors FsdpLink::values_of(const Unit& unit, const Both<Whole>& whole) const {
  Tensors out = unit.flat.trained.values(whole.trained.numbers());
  const Tensors frozen = unit.flat.frozen.values(whole.frozen.numbers());
  out.insert(out.end(), frozen.begin(), frozen.end());
  return out;
}

Tensor FsdpLink::value(kinora_param p) {
  const auto found = places_.find(p);
  if (found == places_.end()) return next.value(p);  // its error says why the parameter has no value
  const auto [block, index] = found->second;
  Unit& unit = units_.at(block);
  const bool graph = at::GradMode::is_enabled();
  if (block < 0 && (unit.values.empty() || (graph && !unit.with_graph))) {
    enter(block, whole(block, 1), {});
    unit.with_graph = graph;
  }
  if (unit.values.empty())
    throw Error(KINORA_ERROR_INVALID,
                "fsdp: a parameter of block " + std::to_string(block) +
                    " was read outside of that block; declare it with block -1, or read it inside");
  return unit.values[index];
}

// Its backward has all gradients of the block, since nothing else in the block reads the parameters.
FsdpLink::Tensors FsdpLink::enter(int64_t block, const std::shared_ptr<Both<Whole>>& whole,
                                  const Tensors& in) {
  Unit& unit = units_.at(block);
  unit.values = values_of(unit, *whole);
  if (!at::GradMode::is_enabled()) return in;
  Tensors given, out = in;
  for (const auto& t : in)
    if (t.defined() && t.requires_grad()) given.push_back(t);
  const size_t inputs = given.size(), values = unit.flat.trained.count();
  if (values > 0) given.push_back(unit.flat.trained.shard());
  if (given.empty()) return in;
  const Tensors made = autograd_apply<Tensor>(
      given, inputs + values,
      [&](const Tensors& t) {
        Tensors through(t.begin(), t.begin() + static_cast<int64_t>(inputs));
        through.insert(through.end(), unit.values.begin(),
                       unit.values.begin() + static_cast<int64_t>(values));
        return through;
      },
      [this, &unit, whole, inputs, values, empties = !keeps(block)](const Tensors& grads) {
        if (empties) {
          whole->trained.empty();
          whole->frozen.empty();
        }
        const auto first = grads.begin() + static_cast<int64_t>(inputs);
        if (values > 0) add_gradient(unit, {first, grads.end()});
        Tensors back(grads.begin(), first);
        if (values > 0) back.emplace_back();  // the leaf's gradient comes from reduce()
        return back;
      });
  size_t k = 0;
  for (auto& t : out)
    if (t.defined() && t.requires_grad()) t = made[k++];
  for (size_t i = 0; i < values; ++i) unit.values[i] = made[inputs + i];
  return out;
}

FsdpLink::Tensors FsdpLink::filled_again(int64_t block, const std::shared_ptr<Both<Whole>>& whole,
                                         const Tensors& out) {
  Tensors given, filled = out;
  for (const auto& t : out)
    if (t.defined() && t.requires_grad()) given.push_back(t);
  whole->trained.empty();
  whole->frozen.empty();
  if (given.empty()) return out;
  const Tensors made = autograd_apply<Tensor>(
      given, given.size(), [](const Tensors& t) { return t; },
      [this, block, whole](const Tensors& grads) {
        const auto numbers = gathered(block, -1);
        whole->trained.fill(numbers.trained);
        whole->frozen.fill(numbers.frozen);
        return grads;
      });
  size_t k = 0;
  for (auto& t : filled)
    if (t.defined() && t.requires_grad()) t = made[k++];
  return filled;
}

FsdpLink::Tensors FsdpLink::block(const kinora_block& b, const Tensors& in) {
  const auto found = units_.find(b.index);
  if (found == units_.end() || b.index < 0) return next.block(b, in);
  const bool again = pass().recompute != 0;
  const auto numbers = whole(b.index, again ? -1 : 1);
  const Reading reading(found->second.values);
  const Tensors out = next.block(b, enter(b.index, numbers, in));
  // A block that runs again has its backward next.
  if (keeps(b.index) || again || !at::GradMode::is_enabled()) return out;
  return filled_again(b.index, numbers, out);
}

// One scatter at a time: more of them would hold the gradients of the whole model.
void FsdpLink::add_gradient(Unit& unit, const Tensors& of_values) {
  if (scattering_ && options_.stage > 1) scattering_->gradient.settle();
  unit.gradient.add(unit.flat.trained.joined(of_values, reduced_as(unit.flat.trained)));
  scattering_ = &unit;
}

void FsdpLink::reduce() {
  tell();
  ++step_;
  scattering_ = nullptr;
  drop_gathers();
  for (auto& [block, unit] : units_) unit.gradient.start();
  struct Sum {
    Tensor range;
    Started<Tensor> coming;
  };
  std::vector<Sum> sums;
  for (auto& [block, unit] : units_) {
    const Flat& flat = unit.flat.trained;
    if (flat.empty()) continue;
    const Tensor part = unit.gradient.take(flat.shard(), reduced_as(flat));
    flat.shard().mutable_grad() = part.to(flat.shard().scalar_type());
    const Tensor& gradient = flat.shard().grad();
    const int64_t cut = flat.split(), rest = gradient.numel() - cut;
    const auto add = [&](const Group<Tensor>& copies, const Tensor& range) {
      if (copies.size() > 1 && range.numel() > 0) sums.push_back({range, copies.start_sum(range)});
    };
    add(block < 0 ? split_copies_outside_ : split_copies_, gradient.narrow(0, 0, cut));
    add(block < 0 ? whole_copies_outside_ : whole_copies_, gradient.narrow(0, cut, rest));
  }
  for (auto& s : sums) s.range.copy_(s.coming.finish());
}

}  // namespace kinora::fsdp
