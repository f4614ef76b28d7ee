// Reading a struct of another minor of the ABI, see abi/base.h.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>

#include "kinora/error.hpp"

KINORA_SDK_BEGIN

namespace kinora::detail {

// A struct whose writer may know fewer members, or more: a copy of this SDK's size, with 0 in the members that the
// writer did not know.
template <class S>
S whole(const S* given) {
  S all{};
  std::memcpy(&all, given, std::min<size_t>(given->struct_size, sizeof all));
  all.struct_size = sizeof all;
  return all;
}

// The same of a struct with `needs` (rule 11). What must not be ignored and this SDK does not know is refused,
// since the copy would lose it. of: the struct in the message, such as "a pass"; understood: the known bits.
template <class S>
S known(const S* given, const char* of, uint32_t understood = 0) {
  const S all = whole(given);
  refuse_unknown(all.needs & ~understood, of);
  return all;
}

}  // namespace kinora::detail

KINORA_SDK_END
