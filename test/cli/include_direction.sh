#!/usr/bin/env bash
# Includes point only down the table in tools/check_includes; and the check itself finds wrong ones.
set -euo pipefail
source_folder=$2
check=$source_folder/tools/check_includes
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$check" "$source_folder"

mkdir -p "$scratch"/src/{base,lang,plan,emit,run} "$scratch/cmd"
echo '#include "lang/program.h"' >"$scratch/src/base/up.c"
echo '#include "plan/plan.h"' >"$scratch/src/lang/up.c"
echo '  #  include "../base/text.h"' >"$scratch/src/plan/dots.c"
echo '#include "base/text.h"' >"$scratch/cmd/private.c"
printf '#include "lang/program.h"\n#include "base/text.h"\n#include "headroom.h"\n#include "own.h"\n' >"$scratch/src/run/good.c"
expected='cmd/private.c:1: cmd may not include "base/text.h"
src/base/up.c:1: base may not include "lang/program.h"
src/lang/up.c:1: lang may not include "plan/plan.h"
src/plan/dots.c:1: plan may not include "../base/text.h"'
if found=$("$check" "$scratch"); then
    echo "wrong includes were not found" >&2
    exit 1
fi
diff <(echo "$expected") <(echo "$found")
