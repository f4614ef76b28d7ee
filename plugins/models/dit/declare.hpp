// Names a parameter and declares where it is read and how it may be split.
#pragma once
#include <cmath>
#include <string>

#include "kinora/aten.hpp"
#include "kinora/context.hpp"

namespace kinora::dit {

using Ctx = Context<at::Tensor>;

class Declare {
 public:
  // block: the context's block that reads the parameters; -1: read outside blocks.
  Declare(const Ctx& ctx, std::string prefix, int64_t block)
      : ctx_(ctx), prefix_(std::move(prefix)), block_(block) {}
  Declare in(const std::string& name) const { return {ctx_, prefix_ + name + ".", block_}; }

  kinora_param operator()(const std::string& name, std::vector<int64_t> shape, Init init,
                          Role role = Role::whole, int64_t quantum = 1) const {
    Parameter p;
    p.name = prefix_ + name;
    p.shape = std::move(shape);
    p.init = init;
    p.role = role;
    p.block = block_;
    p.quantum = quantum;
    return ctx_.parameter(p);
  }
  // The matrix [out, in] of a linear layer, Xavier uniform.
  kinora_param linear(const std::string& name, int64_t out, int64_t in, Role role = Role::whole,
                      int64_t quantum = 1) const {
    return (*this)(name + ".weight", {out, in}, Init::uniform(std::sqrt(6.0 / static_cast<double>(in + out))),
                   role, quantum);
  }
  const Ctx& context() const { return ctx_; }
  kinora_param bias(const std::string& name, int64_t size) const {
    return (*this)(name + ".bias", {size}, Init::zeros());
  }

 private:
  Ctx ctx_;
  std::string prefix_;
  int64_t block_;
};

}  // namespace kinora::dit
