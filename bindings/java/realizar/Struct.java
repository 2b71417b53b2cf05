package realizar;

import java.util.ArrayList;
import java.util.List;

/** The fields of a struct of the header, which follow one another without gaps. {@link Native} compares them with those
 * of the library. */
final class Struct {
    record Field(String name, int offset, int size) {}

    final String name;
    final List<Field> fields = new ArrayList<>();
    /** Bytes of all. */
    int size;

    Struct(String name) {
        this.name = name;
    }

    /** Appends a field; returns the struct. */
    Struct field(String name, int size) {
        fields.add(new Field(name, this.size, size));
        this.size += size;
        return this;
    }

    Field at(String name) {
        for (Field field : fields) {
            if (field.name.equals(name)) return field;
        }
        throw new IllegalArgumentException(this.name + " has no field " + name);
    }
}
