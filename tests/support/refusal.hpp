// The message of a call that must be refused.
#pragma once
#include <string>

#include "kinora/error.hpp"

namespace kinora::test {

// The message of the kinora::Error that `call` throws, or "nothing was refused".
template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was refused";
}

}  // namespace kinora::test
