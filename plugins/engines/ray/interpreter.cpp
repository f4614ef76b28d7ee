#include "plugins/engines/ray/interpreter.hpp"

#include <cstdlib>

#include "core/base/program_output.hpp"
#include "kinora/error.hpp"

namespace kinora::ray {

std::string interpreter_of(const std::string& asked) {
  const char* environment = std::getenv("VIRTUAL_ENV");
  return !asked.empty()                ? asked
         : environment && *environment ? std::string(environment) + "/bin/python3"
                                       : "python3";
}

void check_interpreter(const std::string& python, const std::string& version) {
  // "here" comes from any Python, the rest from kinora-ray: a reason, or "ready".
  const std::string said =
      core::output_of({python, "-c",
                       "print('here', flush=True); from kinora_ray import problem; print(problem('" +
                           version + "') or 'ready')"});
  if (said == "here\nready\n") return;
  const std::string remedy = "or set the option python to an interpreter that has it";
  std::string why = said.starts_with("here\n") ? said.substr(5, said.find('\n', 5) - 5) : "";
  if (!said.starts_with("here\n"))
    why = "'" + python + "' cannot be started; install Python with kinora-ray, " + remedy;
  else if (why.empty())
    why = "'" + python + "' has no kinora-ray; install the wheel kinora-ray of this release, " + remedy;
  throw Error(KINORA_ERROR_NOT_FOUND, "engine/ray: " + why);
}

}  // namespace kinora::ray
