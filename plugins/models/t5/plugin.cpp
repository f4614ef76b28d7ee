#include "kinora/plugin.hpp"

#include "plugins/models/t5/t5.hpp"

using kinora::t5::T5;
using kinora::t5::Umt5;
KINORA_COMPONENT(T5)
KINORA_COMPONENT(Umt5)
KINORA_PLUGIN(T5, Umt5)
