import os

import lit.formats

config.name = "qcc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.qcc_build
# This build's tools before anything of the same name that is installed; FileCheck, not and split-file from LLVM.
config.environment["PATH"] = os.pathsep.join(
    config.qcc_tool_dirs + [config.llvm_tools_dir, config.environment["PATH"]])
config.substitutions.append(("%source", config.qcc_source))
# `REQUIRES: qcc` for tests of a tool that a partial build may lack.
for tool in config.qcc_tools:
    config.available_features.add(tool)
