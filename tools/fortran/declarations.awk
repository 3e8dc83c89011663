# SPDX-License-Identifier: MIT
# From preprocessed public headers to declarations of a Fortran module: constants of enums, types of structs, interfaces
# of functions. What has no counterpart is left out, as functions with tensors and variable arguments.
#     cc -E -P HEADER | awk -f declarations.awk

{ text = text " " $0 }

END {
    gsub(/__attribute__ *\(\([^()]*(\([^()]*\))?[^()]*\)\)/, "", text)
    gsub(/[ \t]+/, " ", text)
    split_statements()
    for (i = 1; i <= n; i++) name_types(statements[i])
    for (i = 1; i <= n; i++) if (statements[i] ~ /^typedef enum tcc_|^enum \{/) print_enum(statements[i])
    for (i = 1; i <= n; i++) if (statements[i] ~ /^typedef struct tcc_[a-z_0-9]* \{/) print_struct(statements[i])
    print "    interface"
    for (i = 1; i <= n; i++) if (statements[i] ~ /^[^(){}]*[ *]tcc_[a-z_0-9]* ?\(/) print_function(statements[i])
    print "    end interface"
}

# What ends with a semicolon outside of braces.
function split_statements(    rest, at, depth, c, statement) {
    for (rest = text; length(rest); rest = substr(rest, at + 1)) {
        at = match(rest, /[;{}]/)
        if (!at) break
        c = substr(rest, at, 1)
        statement = statement substr(rest, 1, at - 1)
        if (c == "{") depth++
        if (c == "}") depth--
        if (c == ";" && !depth) {
            sub(/^ +/, "", statement)
            statements[++n] = statement
            statement = ""
        } else statement = statement c
    }
}

function name_types(s,    name) {
    if (s ~ /^typedef enum tcc_/) enums[word(s, 3)] = 1
    else if (s ~ /^typedef struct tcc_[a-z_0-9]* \{/ && s !~ /tcc_(tensor|loc|trace)/) structs[word(s, 3)] = 1
    else if (s ~ /^typedef [^{]*\(\*tcc_/) {
        name = s
        sub(/.*\(\*/, "", name)
        sub(/\).*/, "", name)
        functions[name] = 1
    }
}

function word(s, k,    words) {
    split(s, words, " ")
    return words[k]
}

# Constants count on from the last value.
function print_enum(s,    body, items, count, k, value, name) {
    body = s
    sub(/^[^{]*\{/, "", body)
    sub(/\}.*/, "", body)
    count = split(body, items, ",")
    for (k = 1; k <= count; k++) {
        name = items[k]
        gsub(/ /, "", name)
        if (name == "") continue
        if (name ~ /=/) {
            value = name
            sub(/.*=/, "", value)
            sub(/=.*/, "", name)
            if (value !~ /^-?[0-9]+$/) return
        }
        printf "    integer(c_int), parameter :: %s = %d\n", name, value
        constants[name] = value++
    }
}

# The Fortran type of a C type without pointers; "": it has none.
function plain(type) {
    sub(/^const /, "", type)
    gsub(/ $/, "", type)
    if (type == "int" || type in enums) return "integer(c_int)"
    if (type == "unsigned" || type == "unsigned int") return "integer(c_int)"
    if (type == "int64_t" || type == "uint64_t") return "integer(c_int64_t)"
    if (type == "int32_t" || type == "uint32_t") return "integer(c_int32_t)"
    if (type == "size_t") return "integer(c_size_t)"
    if (type == "double") return "real(c_double)"
    if (type == "float") return "real(c_float)"
    if (type == "_Bool") return "logical(c_bool)"
    if (type in functions) return "type(c_funptr)"
    if (type in structs) return "type(" type ")"
    return ""
}

function zero(type) {
    if (type == "type(c_ptr)") return " = c_null_ptr"
    if (type == "type(c_funptr)") return " = c_null_funptr"
    if (type ~ /^logical/) return " = .false._c_bool"
    return type ~ /^type/ ? "" : " = 0"
}

function print_struct(s,    name, body, fields, count, k, out, type, names, m, each, list, extent) {
    name = word(s, 3)
    if (!(name in structs)) return
    body = s
    sub(/^[^{]*\{/, "", body)
    sub(/\}[^}]*$/, "", body)
    count = split(body, fields, ";")
    for (k = 1; k <= count; k++) {
        gsub(/^ +| +$/, "", fields[k])
        if (fields[k] == "") continue
        if (fields[k] ~ /\(\*/) {
            sub(/.*\(\*/, "", fields[k])
            sub(/\).*/, "", fields[k])
            out = out "        type(c_funptr) :: " fields[k] " = c_null_funptr\n"
            continue
        }
        match(fields[k], /^(const )?[a-zA-Z_0-9]+/)
        type = substr(fields[k], 1, RLENGTH)
        list = substr(fields[k], RLENGTH + 1)
        m = split(list, names, ",")
        for (each = 1; each <= m; each++) {
            list = names[each]
            extent = ""
            if (match(list, /\[.*\]/)) {
                extent = substr(list, RSTART + 1, RLENGTH - 2)
                list = substr(list, 1, RSTART - 1)
                extent = "(" (extent in constants ? constants[extent] : extent) ")"
            }
            body = list ~ /\*/ ? "type(c_ptr)" : plain(type)
            if (body == "" || extent ~ /[^()0-9]/) {
                delete structs[name]
                return
            }
            gsub(/[ *]/, "", list)
            out = out "        " body " :: " list extent zero(body) "\n"
        }
    }
    printf "    type, bind(c) :: %s\n%s    end type\n", name, out
}

# Whether `name` counts what the parameter before it points to.
function counts(name) { return name ~ /(^|_)(count|capacity|arrays|n)$/ }

function print_function(s,    at, head, name, list, count, k, parameters, type, names, next_name, out, result_type) {
    at = index(s, "(")
    head = substr(s, 1, at - 1)
    list = substr(s, at + 1)
    sub(/\) *$/, "", list)
    match(head, /tcc_[a-z_0-9]* *$/)
    name = substr(head, RSTART)
    gsub(/ /, "", name)
    result_type = substr(head, 1, RSTART - 1)
    sub(/^extern /, "", result_type)
    gsub(/ +$/, "", result_type)
    if (result_type ~ /\*/) result_type = "type(c_ptr)"
    else if (result_type != "void" && (result_type = plain(result_type)) == "") return
    while (match(list, /\(\*[a-z_]*\)\([^()]*\)/)) { # a function pointer
        type = substr(list, RSTART + 2, RLENGTH - 2)
        sub(/\).*/, "", type)
        list = substr(list, 1, RSTART - 1) "\001" type substr(list, RSTART + RLENGTH)
    }
    if (list == "void") list = ""
    count = split(list, parameters, ",")
    for (k = 1; k <= count; k++) {
        match(parameters[k], /[a-zA-Z_0-9]*(\[[0-9]*\])? *$/)
        names[k] = substr(parameters[k], RSTART)
        gsub(/[ \[\]0-9]+$|\[.*/, "", names[k])
    }
    for (k = 1; k <= count; k++) {
        next_name = k < count ? names[k + 1] : ""
        type = declare(parameters[k], names[k], next_name)
        if (type == "") return
        out = out "            " type "\n"
        names[0] = k == 1 ? names[1] : names[0] ", " names[k]
    }
    head = "(" (count ? names[0] : "") ")"
    if (result_type == "void") printf "        subroutine %s%s bind(c)\n", name, head
    else printf "        function %s%s bind(c) result(of)\n", name, head
    printf "            import\n%s", out
    if (result_type != "void") printf "            %s :: of\n", result_type
    print "        end " (result_type == "void" ? "subroutine" : "function")
}

function declare(parameter, name, next_name,    type, of, intent) {
    if (name == "of" || parameter ~ /\.\.\.|tcc_tensor|tcc_loc|tcc_trace/) return ""
    if (parameter ~ /\001/) return "type(c_funptr), value :: " name
    type = parameter
    sub(/[a-zA-Z_0-9]*(\[[0-9]*\])? *$/, "", type)
    gsub(/^ +| +$/, "", type)
    if (parameter ~ /\[/) type = type " *"
    intent = type ~ /^const / ? "intent(in)" : "intent(inout)"
    if (type ~ /\*.*\*/) return "type(c_ptr), intent(" (type ~ /\*const/ ? "in" : "out") ") :: " name
    if (type !~ /\*/) {
        of = plain(type)
        return of == "" ? "" : of ", value :: " name
    }
    sub(/ *\*$/, "", type)
    if (type == "const char") return "character(kind=c_char), intent(in), optional :: " name "(*)"
    of = plain(type)
    if (of == "") return "type(c_ptr), value :: " name
    return of ", " intent ", optional :: " name (counts(next_name) || parameter ~ /\[/ ? "(*)" : "")
}
