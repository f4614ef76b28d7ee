// The chain of core/runtime/plain_chain.hpp.
#pragma once
#include "core/runtime/plain_chain.hpp"

namespace kinora::core {

std::unique_ptr<PlainChain> make_plain_chain(const PlainChainOptions&,
                                             const std::vector<const kinora_link*>& links);

}  // namespace kinora::core
